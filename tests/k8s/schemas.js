// Is an object what its kind may be? Two tools, since each misses what the other finds: TypeScript with the types
// of the API (unknown fields, wrong types) and JSON schemas of it (wrong types, missing fields). Kinds of KServe
// have a schema of ours, and what in them belongs to a pod is checked as a pod.
'use strict';
const fs = require('fs');
const path = require('path');
const Ajv = require('ajv').default;
const ts = require('typescript');

const API = (types, models = types) => ({ types: `kubernetes-types/${types}`, models: `kubernetes-models/${models}` });
const KINDS = {
    'v1 ConfigMap': API('core/v1', 'v1'),
    'v1 PersistentVolumeClaim': API('core/v1', 'v1'),
    'v1 Pod': API('core/v1', 'v1'),
    'v1 Service': API('core/v1', 'v1'),
    'v1 ServiceAccount': API('core/v1', 'v1'),
    'apps/v1 Deployment': API('apps/v1'),
    'autoscaling/v2 HorizontalPodAutoscaler': API('autoscaling/v2'),
    'networking.k8s.io/v1 NetworkPolicy': API('networking/v1', 'networking.k8s.io/v1'),
    'policy/v1 PodDisruptionBudget': API('policy/v1'),
    'monitoring.coreos.com/v1 ServiceMonitor': {
        types: '@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1/ServiceMonitor',
        models: '@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1',
        prefix: 'I',
    },
    'serving.kserve.io/v1alpha1 ClusterServingRuntime': { schema: 'clusterservingruntime' },
    'serving.kserve.io/v1alpha1 ServingRuntime': { schema: 'clusterservingruntime' },
    'serving.kserve.io/v1beta1 InferenceService': { schema: 'inferenceservice' },
};
const POD_OF_RUNTIME = ['containers', 'volumes', 'nodeSelector', 'affinity', 'tolerations', 'imagePullSecrets', 'hostIPC'];

const ajv = new Ajv({ allErrors: true, strict: false });

function compile(name) {
    const key = `schema/${name}.json`;
    return ajv.getSchema(key) || ajv.addSchema(JSON.parse(fs.readFileSync(path.join(__dirname, key))), key).getSchema(key);
}

// What is wrong with a value by a schema of ours.
function bySchema(name, value) {
    const validate = compile(name);
    validate(value);
    return (validate.errors || []).map((error) => {
        const extra = error.params.additionalProperty ? ` '${error.params.additionalProperty}'` : '';
        return `${error.instancePath || '/'} ${error.message}${extra}`;
    });
}

function pick(object, keep) {
    return Object.fromEntries(Object.entries(object).filter(([key]) => keep(key)));
}

// The part of a KServe object that becomes a pod's, as a pod.
function podOf(object) {
    const pod = (spec) => ({ apiVersion: 'v1', kind: 'Pod', metadata: { name: 'pod' }, spec });
    const spec = object.spec || {};
    if (object.kind !== 'InferenceService') {
        return pod(pick(spec, (key) => POD_OF_RUNTIME.includes(key)));
    }
    const { properties } = compile('inferenceservice').schema.definitions.predictor;
    const { properties: own } = compile('inferenceservice').schema.definitions.model;
    const predictor = spec.predictor || {};
    const container = pick(predictor.model || {}, (key) => own[key] === true);
    return pod({
        ...pick(predictor, (key) => properties[key] === true),
        containers: [{ name: 'kserve-container', ...container }],
    });
}

// ---- TypeScript ------------------------------------------------------------------------------

// What the compiler says of each object, given its type.
function byTypes(objects, folder) {
    fs.rmSync(folder, { recursive: true, force: true });
    fs.mkdirSync(folder, { recursive: true });
    const files = objects.map((object, i) => {
        const kind = KINDS[`${object.apiVersion} ${object.kind}`];
        const file = path.join(folder, `object${i}.ts`);
        const type = `import('${kind.types}').${kind.prefix || ''}${object.kind}`;
        fs.writeFileSync(file, `export const object: ${type} = ${JSON.stringify(object, null, 1)};\n`);
        return file;
    });
    const program = ts.createProgram(files, {
        noEmit: true,
        strict: true,
        skipLibCheck: true,
        types: [],
        module: ts.ModuleKind.CommonJS,
        moduleResolution: ts.ModuleResolutionKind.Node10,
        target: ts.ScriptTarget.ES2020,
        lib: ['lib.es2020.d.ts'],
    });
    const others = ts.getPreEmitDiagnostics(program).filter((one) => !one.file || !files.includes(one.file.fileName));
    if (others.length > 0) {
        throw new Error(ts.flattenDiagnosticMessageText(others[0].messageText, ' '));
    }
    return files.map((file) =>
        program.getSemanticDiagnostics(program.getSourceFile(file))
            .map((one) => ts.flattenDiagnosticMessageText(one.messageText, ' ')));
}

function byModels(object) {
    const kind = KINDS[`${object.apiVersion} ${object.kind}`];
    try {
        new (require(`${kind.models}/${object.kind}`)[object.kind])(object).validate();
        return [];
    } catch (error) {
        return error.message.split(', ');
    }
}

// What every object needs, whatever the schema of its kind leaves open.
function byHabit(object) {
    const { name } = object.metadata || {};
    return typeof name === 'string' && /^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/.test(name)
        ? [] : ['/metadata must have required property name'];
}

// What is wrong with each of the objects: a list of texts for each. folder: for files in between, with the
// packages in a node_modules above it.
function faultsOf(objects, folder) {
    const faults = objects.map(() => []);
    const typed = [];
    objects.forEach((object, i) => {
        const kind = KINDS[`${object.apiVersion} ${object.kind}`];
        if (!kind) {
            faults[i].push(`there is no kind ${object.kind} in ${object.apiVersion} here`);
            return;
        }
        faults[i].push(...byHabit(object), ...(kind.schema ? bySchema(kind.schema, object) : []));
        typed.push({ i, object: kind.schema ? podOf(object) : object });
    });
    const said = byTypes(typed.map(({ object }) => object), folder);
    typed.forEach(({ i, object }, n) => faults[i].push(...said[n], ...byModels(object)));
    return faults;
}

module.exports = { faultsOf, bySchema, KINDS };
