// Does the daemon know what the manifests tell it: options and their values, paths of probes, names of metrics?
'use strict';
const { spawn, spawnSync } = require('child_process');
const fs = require('fs');
const http = require('http');
const net = require('net');
const path = require('path');
const { optionsOf } = require('./references');

const SECONDS = 20;

function freePort() {
    return new Promise((resolve) => {
        const server = net.createServer().listen(0, '127.0.0.1', () => {
            const { port } = server.address();
            server.close(() => resolve(port));
        });
    });
}

function get(port, route) {
    return new Promise((resolve) => {
        const ask = http.get({ host: '127.0.0.1', port, path: route, timeout: SECONDS * 1000 }, (reply) => {
            let text = '';
            reply.on('data', (part) => { text += part; });
            reply.on('end', () => resolve({ status: reply.statusCode, text }));
        });
        ask.on('timeout', () => ask.destroy());
        ask.on('error', (error) => resolve({ status: 0, text: error.message }));
    });
}

// Folders for what the manifests mount: a repository of the demo models, and one model by itself.
function makeMounts(folder, models) {
    fs.rmSync(folder, { recursive: true, force: true });
    fs.cpSync(models, path.join(folder, 'models'), { recursive: true });
    fs.cpSync(path.join(models, 'causal_steps'), path.join(folder, 'mnt', 'models'), { recursive: true });
}

// The command line that is the same as a container's, with mounts and ports of this machine.
function commandLine(options, folder, ports) {
    const here = {
        ...options,
        '--http-address': '127.0.0.1',
        '--http-port': String(ports[0]),
        '--model-name': options['--model-name'] && options['--model-name'].replace('{{.Name}}', 'demo'),
        '--model-repository': path.join(folder, options['--model-repository'] || '/models'),
    };
    if (options['--http-admin-address']) {
        here['--http-admin-address'] = '127.0.0.1';
        here['--http-admin-port'] = String(ports[1]);
    }
    return Object.entries(here).filter(([, value]) => value !== undefined).map(([name, value]) => `${name}=${value}`);
}

// What Kubernetes would tell a container of the services beside it, if it were asked to: none may be taken for an option.
function serviceVariables(objects) {
    const variables = {};
    for (const { metadata, spec } of objects.filter(({ kind }) => kind === 'Service')) {
        const prefix = metadata.name.toUpperCase().replace(/-/g, '_');
        const [{ port }] = spec.ports;
        const url = `tcp://10.0.0.1:${port}`;
        Object.assign(variables, {
            [`${prefix}_SERVICE_HOST`]: '10.0.0.1',
            [`${prefix}_SERVICE_PORT`]: String(port),
            [`${prefix}_PORT`]: url,
            [`${prefix}_PORT_${port}_TCP`]: url,
            [`${prefix}_PORT_${port}_TCP_PROTO`]: 'tcp',
            [`${prefix}_PORT_${port}_TCP_PORT`]: String(port),
            [`${prefix}_PORT_${port}_TCP_ADDR`]: '10.0.0.1',
        });
        for (const { name, port: number } of spec.ports) {
            variables[`${prefix}_SERVICE_PORT_${name.toUpperCase()}`] = String(number);
        }
    }
    return variables;
}

async function started(daemon, args, port, folder, variables) {
    const log = fs.openSync(path.join(folder, 'log'), 'w');
    const child = spawn(daemon, args, { stdio: ['ignore', 'ignore', log], env: { ...process.env, ...variables } });
    fs.closeSync(log);
    for (let i = 0; i < SECONDS * 10; i++) {
        if ((await get(port, '/v2/health/live')).status === 200) return child;
        if (child.exitCode !== null) break;
        await new Promise((resolve) => { setTimeout(resolve, 100); });
    }
    child.kill('SIGKILL');
    throw new Error(`${daemon} ${args.join(' ')} does not answer: ${fs.readFileSync(path.join(folder, 'log'), 'utf8')}`);
}

function stopped(child) {
    return new Promise((resolve) => {
        if (child.exitCode !== null) {
            resolve(child.exitCode);
            return;
        }
        child.on('exit', resolve);
        child.kill('SIGTERM');
        setTimeout(() => child.kill('SIGKILL'), SECONDS * 1000).unref();
    });
}

// Names in a query that are no functions, labels or words of the language.
function metricNames(query) {
    return query.match(/\b(attentiond|nv)_[a-z_]+/g) || [];
}

function familiesOf(text) {
    return new Set(text.split('\n').filter((line) => line !== '' && line[0] !== '#').map((line) => /^[a-zA-Z_:]+/.exec(line)[0]));
}

// One container of a set of objects. check(NAME, TEXT-OR-NOTHING) counts.
async function checkContainer(what, daemon, container, objects, metrics, folder, check) {
    const options = optionsOf(container, objects);
    const help = spawnSync(daemon, ['--help'], { encoding: 'utf8' }).stdout;
    const unknown = Object.keys(options).filter((name) => !new RegExp(`^  ${name}( |$)`, 'm').test(help));
    check(`${what}: options that --help has`, unknown.join(' '));

    const ports = [await freePort(), await freePort()];
    const args = commandLine(options, folder, ports);
    const checked = spawnSync(daemon, [...args, '--check-config'], { encoding: 'utf8', timeout: SECONDS * 1000 });
    check(`${what}: --check-config`, checked.status === 0 ? '' : checked.stdout + checked.stderr);

    const quick = commandLine({ ...options, '--drain-seconds': '0' }, folder, ports);
    const child = await started(daemon, quick, ports[0], folder, serviceVariables(objects));
    const admin = options['--http-admin-address'] ? ports[1] : ports[0];
    for (const name of ['startupProbe', 'readinessProbe', 'livenessProbe']) {
        const { path: route, port } = container[name].httpGet;
        const asked = await get(port === 'admin' ? ports[1] : ports[0], route);
        check(`${what}: ${name} ${route}`, asked.status === 200 ? '' : `status ${asked.status}`);
    }
    const page = await get(admin, metrics.path);
    const families = familiesOf(page.text);
    check(`${what}: ${metrics.path}`, page.status === 200 ? '' : `status ${page.status}`);
    check(`${what}: metrics that are there`, metrics.names.filter((name) => !families.has(name)).join(' '));
    const index = await get(ports[0], '/v2/models');
    check(`${what}: models`, !options['--model-name'] || index.text.includes('"demo"') ? '' : index.text);
    const code = await stopped(child);
    check(`${what}: a stop`, code === 0 ? '' : `exit status ${code}`);
}

module.exports = { checkContainer, makeMounts, metricNames };
