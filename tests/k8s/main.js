// Are the manifests under config/k8s what Kubernetes, KServe and this daemon take them for, and would these checks
// tell if they were not? main.js DAEMON FOLDER; FOLDER holds the packages, and what is written on the way.
'use strict';
const fs = require('fs');
const path = require('path');
const { build, readDocuments } = require('./kustomize');
const { faultsOf, bySchema, KINDS } = require('./schemas');
const { danglingOf } = require('./references');
const { checkContainer, makeMounts, metricNames } = require('./product');
const query = require('./query');
const brokenReferences = require('./broken/references');

const [daemon, folder] = process.argv.slice(2).map((name) => path.resolve(name));
const source = path.resolve(__dirname, '../..');
const config = path.join(source, 'config/k8s');
let passed = 0;
let failed = 0;

function check(name, fault) {
    if (fault) {
        failed++;
        console.log(`manifests: ${name}: ${String(fault).trim().slice(0, 600)}`);
    } else {
        passed++;
    }
}

function filesBelow(top) {
    return fs.readdirSync(top, { withFileTypes: true })
        .flatMap((entry) => (entry.isDirectory() ? filesBelow(path.join(top, entry.name)) : [path.join(top, entry.name)]));
}

function throws(action) {
    try {
        action();
        return '';
    } catch (error) {
        return error.message;
    }
}

// ---- good ones -------------------------------------------------------------------------------

// Every kustomization that stands alone, built.
function buildAll() {
    const sets = {};
    for (const name of ['base', 'overlays/local', 'overlays/production', 'kserve']) {
        const fault = throws(() => { sets[name] = build(path.join(config, name)); });
        check(`${name}: it can be built`, fault);
        if (fault) process.exitCode = 1;
    }
    return sets;
}

// No file is there for nothing, and none is missed by the checks.
function checkUse(adapter, fill) {
    const texts = filesBelow(config).filter((file) => file.endsWith('kustomization.yaml')).map((file) => fs.readFileSync(file, 'utf8'));
    for (const file of filesBelow(config)) {
        const name = path.basename(file);
        const isUsed = name === 'kustomization.yaml' || [adapter, fill].includes(file) || texts.some((text) => text.includes(`- ${name}`) || text.includes(`path: ${name}`));
        check(`${path.relative(source, file)} is used`, isUsed ? '' : 'by no kustomization');
    }
}

function checkSchemas(sets, fill, adapter) {
    const objects = [...Object.values(sets).flat(), ...readDocuments(fill)];
    const faults = faultsOf(objects, path.join(folder, 'good'));
    objects.forEach((object, i) => check(`${object.kind} ${object.metadata.name}`, faults[i].join('; ')));
    check(path.relative(source, adapter), bySchema('prometheus-adapter-values', readDocuments(adapter)[0]).join('; '));
}

function checkVersion(sets) {
    const [, version] = /^VERSION := (.*)$/m.exec(fs.readFileSync(path.join(source, 'Makefile'), 'utf8'));
    for (const [name, objects] of Object.entries(sets)) {
        for (const object of objects) {
            const spec = object.kind === 'Deployment' ? object.spec.template.spec : object.spec || {};
            for (const container of spec.containers || []) {
                check(`${name}: the image is this version's`, container.image === `localhost/attentiond:${version}` ? '' : container.image);
            }
        }
    }
}

// ---- broken ones -----------------------------------------------------------------------------

// Documents of a folder's files, each after a comment that says what is wrong with it.
function expectations(file) {
    return [...fs.readFileSync(file, 'utf8').matchAll(/^# expect: (.*)$/gm)].map(([, text]) => text);
}

function checkBroken() {
    const files = filesBelow(path.join(__dirname, 'broken')).filter((file) => file.endsWith('.yaml'));
    const cases = files.flatMap((file) => {
        const objects = readDocuments(file);
        const texts = expectations(file);
        check(`${path.basename(file)}: each document says what to expect`, objects.length === texts.length ? '' : texts.length);
        return objects.map((object, i) => ({ name: `broken ${path.basename(file)} ${i + 1}`, object, text: texts[i] }));
    });
    const faults = faultsOf(cases.map(({ object }) => object), path.join(folder, 'broken'));
    cases.forEach(({ name, text }, i) => check(name, faults[i].some((fault) => fault.includes(text))
        ? '' : `expected '${text}', got: ${faults[i].join('; ') || 'nothing'}`));
    const kinds = new Set(cases.map(({ object }) => `${object.apiVersion} ${object.kind}`));
    for (const kind of Object.keys(KINDS).filter((one) => !one.endsWith(' ServingRuntime'))) {
        check(`${kind} has broken ones`, kinds.has(kind) ? '' : 'none');
    }
}

function checkBrokenKustomizations() {
    for (const file of filesBelow(path.join(__dirname, 'broken_kustomize')).filter((one) => one.endsWith('kustomization.yaml'))) {
        const [text = ''] = expectations(file);
        const fault = throws(() => build(path.dirname(file)));
        const holds = text === '' ? fault === '' : fault.includes(text);
        check(`kustomize ${path.basename(path.dirname(file))}`, holds ? '' : `expected '${text}', got '${fault}'`);
    }
}

function checkBrokenReferences() {
    for (const [text, change] of brokenReferences) {
        const objects = build(path.join(config, 'overlays/production'));
        change(objects);
        const said = danglingOf(objects);
        check(`reference: ${text}`, said.some((one) => one.includes(text)) ? '' : said.join('; ') || 'nothing was said');
    }
}

function checkBrokenAdapter(values) {
    const broken = [
        ["additional properties 'rule'", { rule: {} }],
        ['must have required property \'custom\'', { rules: {} }],
        ['must be string', { rules: { custom: [{ ...values.rules.custom[0], seriesQuery: 1 }] } }],
        ['must match pattern', { rules: { custom: [{ ...values.rules.custom[0], metricsQuery: 'up' }] } }],
    ];
    for (const [text, value] of broken) {
        const said = bySchema('prometheus-adapter-values', value);
        check(`adapter: ${text}`, said.some((one) => one.includes(text)) ? '' : said.join('; ') || 'nothing was said');
    }
}

// ---- beside the product ----------------------------------------------------------------------

async function checkProduct(sets, rule) {
    makeMounts(path.join(folder, 'mounts'), path.join(source, 'config/models'));
    const production = sets['overlays/production'];
    const [pods] = production.filter(({ kind }) => kind === 'HorizontalPodAutoscaler');
    const [monitor] = production.filter(({ kind }) => kind === 'ServiceMonitor');
    check('the autoscaler asks for what the adapter gives',
        pods.spec.metrics[0].pods.metric.name === rule.name.as ? '' : rule.name.as);
    const names = [...new Set(metricNames(`${rule.seriesQuery} ${rule.metricsQuery}`)), 'nv_inference_count'];
    const [relabel] = monitor.spec.endpoints[0].metricRelabelings;
    check('what is dropped is there', new RegExp(`^(${relabel.regex})$`).test('nv_inference_count') ? '' : relabel.regex);
    const metrics = { path: monitor.spec.endpoints[0].path, names };
    for (const [name, objects] of Object.entries(sets)) {
        const object = objects.find(({ kind }) => kind === 'Deployment' || kind === 'ClusterServingRuntime');
        const { containers } = object.kind === 'Deployment' ? object.spec.template.spec : object.spec;
        await checkContainer(name, daemon, containers[0], objects, metrics, path.join(folder, 'mounts'), check);
    }
    const [runtime] = sets.kserve.filter(({ kind }) => kind === 'ClusterServingRuntime');
    check('KServe is told where metrics are', runtime.spec.annotations['prometheus.kserve.io/path'] === metrics.path ? '' : 'elsewhere');
}

async function main() {
    const adapter = path.join(config, 'components/autoscaling/prometheus-adapter-values.yaml');
    const fill = path.join(config, 'components/models/fill.yaml');
    const sets = buildAll();
    if (process.exitCode) return;
    const [values] = readDocuments(adapter);
    checkUse(adapter, fill);
    checkSchemas(sets, fill, adapter);
    checkVersion(sets);
    for (const [name, objects] of Object.entries(sets)) check(`${name}: references`, danglingOf(objects).join('; '));
    checkBroken();
    checkBrokenKustomizations();
    checkBrokenReferences();
    checkBrokenAdapter(values);
    check('the query of the adapter', query.faultOf(values.rules.custom[0], folder));
    await checkProduct(sets, values.rules.custom[0]);
}

main().catch((error) => check('the checks themselves', error.stack)).finally(() => {
    console.log(`manifests: ${passed} passed, ${failed} failed`);
    process.exitCode = failed === 0 && passed > 0 ? 0 : 1;
});
