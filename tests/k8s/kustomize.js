// Build a kustomization, as far as ours go, and be strict about it: what `kubectl kustomize` would pass over in
// silence (a patch or an image that hits nothing, a key that it does not know) is an error here.
//
// Known: resources, components, configMapGenerator (envs, literals, behavior), images, patches in the form of
// RFC 6902. Patches of the other form are refused: how they merge depends on each field's schema.
'use strict';
const crypto = require('crypto');
const fs = require('fs');
const path = require('path');
const yaml = require('yaml');

const FORMS = {
    Kustomization: 'kustomize.config.k8s.io/v1beta1',
    Component: 'kustomize.config.k8s.io/v1alpha1',
};
const KEYS = ['apiVersion', 'kind', 'resources', 'components', 'configMapGenerator', 'images', 'patches'];

function fail(where, text) {
    throw new Error(`${where}: ${text}`);
}

// Every document of a file: YAML 1.2 without keys twice.
function readDocuments(file) {
    if (!fs.existsSync(file)) fail(file, 'no such file');
    return yaml.parseAllDocuments(fs.readFileSync(file, 'utf8'), { uniqueKeys: true }).map((document) => {
        const wrong = [...document.errors, ...document.warnings];
        if (wrong.length > 0) fail(file, wrong[0].message.split('\n')[0]);
        return document.toJS();
    });
}

function onlyKeys(where, object, keys) {
    for (const key of Object.keys(object)) {
        if (!keys.includes(key)) fail(where, `unknown key ${key}`);
    }
}

function list(where, value) {
    if (value === undefined) return [];
    if (!Array.isArray(value) || value.length === 0) fail(where, 'expected a list that is not empty');
    return value;
}

function identity(object) {
    return `${object.apiVersion} ${object.kind} ${(object.metadata || {}).name}`;
}

// ---- resources -------------------------------------------------------------------------------

function add(where, objects, object) {
    if (!object || typeof object !== 'object' || !object.apiVersion || !object.kind) {
        fail(where, 'no manifest: apiVersion and kind are missing');
    }
    if (objects.some((other) => identity(other) === identity(object))) {
        fail(where, `${identity(object)} is there twice`);
    }
    objects.push(object);
}

function addResource(where, folder, name, objects) {
    const file = path.join(folder, name);
    if (!fs.existsSync(file)) fail(where, `resources: ${name}: no such file`);
    const parts = fs.statSync(file).isDirectory() ? accumulate(file, 'Kustomization', []) : readDocuments(file);
    for (const object of parts) add(file, objects, object);
}

// ---- config maps -----------------------------------------------------------------------------

function pairsOf(where, folder, generator) {
    const lines = [...list(where, generator.literals)];
    for (const name of list(where, generator.envs)) {
        const file = path.join(folder, name);
        if (!fs.existsSync(file)) fail(where, `${name}: no such file`);
        lines.push(...fs.readFileSync(file, 'utf8').split('\n').filter((line) => line !== '' && !line.startsWith('#')));
    }
    const data = {};
    for (const line of lines) {
        const cut = line.indexOf('=');
        if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(line.slice(0, cut))) fail(where, `'${line}' is no NAME=VALUE`);
        if (line.slice(0, cut) in data) fail(where, `${line.slice(0, cut)} is there twice`);
        data[line.slice(0, cut)] = line.slice(cut + 1);
    }
    return data;
}

function generate(where, folder, generator, objects) {
    onlyKeys(where, generator, ['name', 'behavior', 'envs', 'literals']);
    const data = pairsOf(where, folder, generator);
    const old = objects.find((object) => object.kind === 'ConfigMap' && object.metadata.name === generator.name);
    if (generator.behavior === 'merge') {
        if (!old) fail(where, `there is no ConfigMap ${generator.name} to merge into`);
        Object.assign(old.data, data);
    } else if (generator.behavior !== undefined && generator.behavior !== 'create') {
        fail(where, `unknown behavior ${generator.behavior}`);
    } else {
        const object = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: generator.name }, data };
        Object.defineProperty(object, 'isGenerated', { value: true });
        add(where, objects, object);
    }
}

// Every object in a tree.
function walk(tree, visit) {
    if (tree === null || typeof tree !== 'object') return;
    visit(tree);
    for (const value of Object.values(tree)) walk(value, visit);
}

// A generated map is called by what is in it, wherever it is referred to.
function nameGenerated(objects) {
    for (const map of objects.filter((object) => object.isGenerated)) {
        const name = map.metadata.name;
        const hash = crypto.createHash('sha256').update(JSON.stringify(map.data)).digest('hex').slice(0, 10);
        let found = 0;
        walk(objects, (tree) => {
            for (const key of ['configMapRef', 'configMapKeyRef', 'configMap']) {
                if (tree[key] && tree[key].name === name) {
                    tree[key].name = `${name}-${hash}`;
                    found++;
                }
            }
        });
        if (found === 0) fail(`ConfigMap ${name}`, 'nobody refers to it');
        map.metadata.name = `${name}-${hash}`;
    }
}

// ---- images ----------------------------------------------------------------------------------

function replaceImage(where, image, objects) {
    onlyKeys(where, image, ['name', 'newName', 'newTag', 'digest']);
    let found = 0;
    walk(objects, (tree) => {
        for (const key of ['containers', 'initContainers']) {
            for (const container of Array.isArray(tree[key]) ? tree[key] : []) {
                const [, name, tag] = /^(.*?)(:[^:/]*)?$/.exec(container.image || '');
                if (name === image.name) {
                    const newTag = image.newTag === undefined ? tag || '' : `:${image.newTag}`;
                    container.image = (image.newName || name) + (image.digest ? `@${image.digest}` : newTag);
                    found++;
                }
            }
        }
    });
    if (found === 0) fail(where, `no container has the image ${image.name}`);
}

// ---- patches ---------------------------------------------------------------------------------

function stepInto(where, tree, key) {
    const value = Array.isArray(tree) && !/^(0|[1-9][0-9]*)$/.test(key) ? undefined : tree[key];
    if (value === undefined) fail(where, 'there is no such place');
    return value;
}

function operate(where, object, operation) {
    onlyKeys(where, operation, ['op', 'path', 'value']);
    const at = `${where}: ${operation.op} ${operation.path}`;
    const keys = String(operation.path).split('/').map((key) => key.replace(/~1/g, '/').replace(/~0/g, '~'));
    if (keys.shift() !== '' || keys.length === 0) fail(at, 'no path');
    const last = keys.pop();
    const parent = keys.reduce((tree, key) => stepInto(at, tree, key), object);
    if (operation.op === 'add' && Array.isArray(parent)) {
        if (last !== '-' && !(Number(last) <= parent.length)) fail(at, 'there is no such place');
        parent.splice(last === '-' ? parent.length : Number(last), 0, operation.value);
    } else if (operation.op === 'add') {
        if (parent[last] !== undefined) fail(at, 'it is there already: replace it');
        parent[last] = operation.value;
    } else if (operation.op === 'replace') {
        stepInto(at, parent, last);
        parent[last] = operation.value;
    } else if (operation.op === 'remove') {
        stepInto(at, parent, last);
        if (Array.isArray(parent)) parent.splice(Number(last), 1);
        else delete parent[last];
    } else {
        fail(at, 'unknown operation');
    }
}

function applyPatch(where, folder, patch, objects) {
    onlyKeys(where, patch, ['target', 'path', 'patch']);
    if (!patch.target || (patch.path === undefined) === (patch.patch === undefined)) {
        fail(where, 'expected a target, and either path or patch');
    }
    onlyKeys(where, patch.target, ['group', 'version', 'kind', 'name']);
    const targets = objects.filter((object) => {
        const [group, version] = `/${object.apiVersion}`.split('/').slice(-2);
        return Object.entries({ group, version, kind: object.kind, name: object.metadata.name }).every(
            ([key, value]) => patch.target[key] === undefined || patch.target[key] === value);
    });
    if (targets.length === 0) fail(where, `patches: nothing is ${JSON.stringify(patch.target)}`);
    const operations = patch.path === undefined ? yaml.parse(patch.patch) : readDocuments(path.join(folder, patch.path))[0];
    if (!Array.isArray(operations)) fail(where, 'patches: expected a list of operations');
    for (const target of targets) {
        for (const operation of operations) operate(where, target, operation);
    }
}

// ---- a kustomization -------------------------------------------------------------------------

function accumulate(folder, kind, objects) {
    const where = path.join(folder, 'kustomization.yaml');
    const [wanted, ...more] = readDocuments(where);
    if (more.length > 0) fail(where, 'more than one document');
    onlyKeys(where, wanted, KEYS);
    if (wanted.kind !== kind || wanted.apiVersion !== FORMS[kind]) fail(where, `expected kind ${kind}, ${FORMS[kind]}`);
    for (const name of list(where, wanted.resources)) addResource(where, folder, name, objects);
    for (const generator of list(where, wanted.configMapGenerator)) generate(where, folder, generator, objects);
    for (const name of list(where, wanted.components)) accumulate(path.join(folder, name), 'Component', objects);
    for (const patch of list(where, wanted.patches)) applyPatch(where, folder, patch, objects);
    for (const image of list(where, wanted.images)) replaceImage(where, image, objects);
    return objects;
}

// The objects of a folder with a kustomization.
function build(folder) {
    const objects = accumulate(folder, 'Kustomization', []);
    nameGenerated(objects);
    return objects;
}

module.exports = { build, readDocuments };
