// Does what refers to something in a set of objects find it: ports by name, labels, volumes, accounts, targets?
'use strict';

function same(a, b) {
    return Object.entries(a).every(([key, value]) => (b || {})[key] === value);
}

function secondsOf(value) {
    return Number(value);
}

const UNITS = { Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40 };
function bytesOf(quantity) {
    const [, number, unit] = /^([0-9]+)(Ki|Mi|Gi|Ti)?$/.exec(quantity);
    return Number(number) * (unit ? UNITS[unit] : 1);
}

// The options that a container is started with, by their names on the command line.
function optionsOf(container, objects) {
    const options = {};
    const set = (name, value) => {
        if (name.startsWith('ATTENTIOND_')) {
            options[`--${name.slice(11).toLowerCase().replace(/_/g, '-')}`] = value;
        }
    };
    for (const source of container.envFrom || []) {
        const map = objects.find((object) => object.kind === 'ConfigMap' && object.metadata.name === source.configMapRef.name);
        Object.entries(map ? map.data : {}).forEach(([name, value]) => set(name, value));
    }
    (container.env || []).forEach(({ name, value }) => set(name, value));
    for (const argument of container.args || []) {
        const cut = argument.indexOf('=');
        options[cut < 0 ? argument : argument.slice(0, cut)] = cut < 0 ? 'true' : argument.slice(cut + 1);
    }
    return options;
}

function checkPod(spec, labels, objects, say) {
    const has = (kind, name) => objects.some((object) => object.kind === kind && object.metadata.name === name);
    if (spec.serviceAccountName && !has('ServiceAccount', spec.serviceAccountName)) {
        say(`there is no ServiceAccount ${spec.serviceAccountName}`);
    }
    for (const { name, persistentVolumeClaim: claim } of spec.volumes || []) {
        if (claim && !has('PersistentVolumeClaim', claim.claimName)) say(`there is no claim ${claim.claimName}`);
        if (!spec.containers.some((container) => (container.volumeMounts || []).some((mount) => mount.name === name))) {
            say(`the volume ${name} is not mounted`);
        }
    }
    for (const spread of spec.topologySpreadConstraints || []) {
        if (!same(spread.labelSelector.matchLabels, labels)) say('pods are spread by labels that they do not have');
    }
    for (const container of spec.containers) {
        checkContainer(container, spec, has, say);
        checkTimes(container, spec, objects, say);
        checkSecurity(container, spec, say);
    }
}

function checkContainer(container, spec, has, say) {
    for (const mount of container.volumeMounts || []) {
        if (!(spec.volumes || []).some(({ name }) => name === mount.name)) say(`there is no volume ${mount.name}`);
    }
    for (const source of container.envFrom || []) {
        if (!has('ConfigMap', source.configMapRef.name)) say(`there is no ConfigMap ${source.configMapRef.name}`);
    }
    for (const name of ['startupProbe', 'readinessProbe', 'livenessProbe']) {
        if (!container[name]) {
            say(`${container.name} has no ${name}`);
            continue;
        }
        const { port } = container[name].httpGet;
        if (!(container.ports || []).some((one) => one.name === port || one.containerPort === port)) {
            say(`${name}: the container has no port ${port}`);
        }
    }
}

// Killed before it is done, or for lack of memory that it was told it has.
function checkTimes(container, spec, objects, say) {
    const options = optionsOf(container, objects);
    const grace = spec.terminationGracePeriodSeconds === undefined ? 30 : spec.terminationGracePeriodSeconds;
    const needed = secondsOf(options['--drain-seconds']) + secondsOf(options['--exit-timeout-secs']);
    if (!(grace >= needed + 5)) {
        say(`terminationGracePeriodSeconds ${grace} is not 5 s longer than drain and exit timeout, ${needed} s`);
    }
    const memory = Number(options['--queue-memory']) + Number(options['--sequence-memory']);
    if (!(memory <= bytesOf(container.resources.limits.memory) / 2) && options['--queue-memory']) {
        say(`queue and sequences may take ${memory} bytes, more than half of ${container.resources.limits.memory}`);
    }
    const ports = (container.ports || []).map((port) => String(port.containerPort));
    for (const name of ['--http-port', '--http-admin-port']) {
        if (options[name] !== undefined && !ports.includes(options[name])) say(`${name} ${options[name]} is no port of the container`);
    }
    if (options['--http-address'] !== '0.0.0.0') say('--http-address is not 0.0.0.0');
}

function checkSecurity(container, spec, say) {
    const of = (key) => ({ ...spec.securityContext, ...container.securityContext })[key];
    const wanted = { runAsNonRoot: true, allowPrivilegeEscalation: false, readOnlyRootFilesystem: true };
    for (const [key, value] of Object.entries(wanted)) {
        if (of(key) !== value) say(`${container.name}: securityContext.${key} is not ${value}`);
    }
    if ((of('seccompProfile') || {}).type !== 'RuntimeDefault') say(`${container.name}: seccomp is not RuntimeDefault`);
    if (!((of('capabilities') || {}).drop || []).includes('ALL')) say(`${container.name}: capabilities are kept`);
    if (!/:[^:/]+$/.test(container.image) || container.image.endsWith(':latest')) say(`${container.image} has no tag`);
}

const CHECKS = {
    Deployment(object, objects, say) {
        const { template, selector } = object.spec;
        if (!same(selector.matchLabels, template.metadata.labels)) say('its selector does not choose its pods');
        checkPod(template.spec, template.metadata.labels, objects, say);
    },
    ClusterServingRuntime(object, objects, say) {
        const service = objects.find(({ kind }) => kind === 'InferenceService');
        const { spec } = object;
        const { predictor } = service ? service.spec : { predictor: {} };
        checkPod({ ...predictor, containers: spec.containers }, {}, objects, say);
        if (service && predictor.model.runtime !== object.metadata.name) say('the service wants another runtime');
        if (service && !spec.supportedModelFormats.some(({ name, version }) =>
            name === predictor.model.modelFormat.name && version === predictor.model.modelFormat.version)) {
            say('the service wants another model format');
        }
        if (service && !spec.protocolVersions.includes(predictor.model.protocolVersion)) say('the service wants another protocol');
    },
    Service(object, objects, say) {
        const pods = podsOf(objects, object.spec.selector);
        if (pods.length === 0) say('it chooses no pods');
        for (const { name, targetPort } of object.spec.ports) {
            if (!pods.every((pod) => hasPort(pod, targetPort))) say(`port ${name}: pods have no port ${targetPort}`);
        }
    },
    PodDisruptionBudget(object, objects, say) {
        if (podsOf(objects, object.spec.selector.matchLabels).length === 0) say('it chooses no pods');
    },
    NetworkPolicy(object, objects, say) {
        const pods = podsOf(objects, object.spec.podSelector.matchLabels);
        if (pods.length === 0) say('it chooses no pods');
        for (const rule of object.spec.ingress || []) {
            for (const { port } of rule.ports) {
                if (!pods.every((pod) => hasPort(pod, port))) say(`pods have no port ${port}`);
            }
        }
    },
    HorizontalPodAutoscaler(object, objects, say) {
        const { kind, name } = object.spec.scaleTargetRef;
        const target = objects.find((one) => one.kind === kind && one.metadata.name === name);
        if (!target) say(`there is no ${kind} ${name}`);
        else if (target.spec.replicas !== undefined) say(`${kind} ${name} has replicas of its own`);
        if (!(object.spec.minReplicas <= object.spec.maxReplicas)) say('minReplicas is above maxReplicas');
    },
    ServiceMonitor(object, objects, say) {
        const services = objects.filter(({ kind, metadata }) => kind === 'Service' && same(object.spec.selector.matchLabels, metadata.labels));
        if (services.length !== 1) say(`it chooses ${services.length} services`);
        for (const { port } of object.spec.endpoints) {
            if (!services.every((service) => service.spec.ports.some(({ name }) => name === port))) say(`services have no port ${port}`);
        }
    },
};

function podsOf(objects, labels) {
    return objects.filter(({ kind }) => kind === 'Deployment').map(({ spec }) => spec.template)
        .filter(({ metadata }) => same(labels, metadata.labels));
}

function hasPort(pod, port) {
    return pod.spec.containers.some((container) => container.ports.some((one) => one.name === port || one.containerPort === port));
}

// What does not hold among these objects: texts.
function danglingOf(objects) {
    const said = [];
    for (const object of objects) {
        const check = CHECKS[object.kind];
        const say = (text) => said.push(`${object.kind} ${object.metadata.name}: ${text}`);
        if (check) check(object, objects, say);
    }
    return said;
}

module.exports = { danglingOf, optionsOf };
