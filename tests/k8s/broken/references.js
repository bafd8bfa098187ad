// Changes to the built manifests that break a reference between them, and what is said of each.
'use strict';

const find = (objects, kind, name) => objects.find((object) => object.kind === kind && (!name || object.metadata.name === name));
const pod = (objects) => find(objects, 'Deployment').spec.template.spec;
const map = (objects) => find(objects, 'ConfigMap').data;

module.exports = [
    ['there is no ConfigMap gone', (o) => { pod(o).containers[0].envFrom[0].configMapRef.name = 'gone'; }],
    ['there is no ServiceAccount gone', (o) => { pod(o).serviceAccountName = 'gone'; }],
    ['there is no claim gone', (o) => { pod(o).volumes[0].persistentVolumeClaim.claimName = 'gone'; }],
    ['the volume models is not mounted', (o) => { delete pod(o).containers[0].volumeMounts; }],
    ['there is no volume models', (o) => { delete pod(o).volumes; }],
    ['readinessProbe: the container has no port gone', (o) => { pod(o).containers[0].readinessProbe.httpGet.port = 'gone'; }],
    ['has no livenessProbe', (o) => { delete pod(o).containers[0].livenessProbe; }],
    ['its selector does not choose its pods', (o) => { find(o, 'Deployment').spec.selector.matchLabels = { a: 'b' }; }],
    ['pods are spread by labels', (o) => { pod(o).topologySpreadConstraints[0].labelSelector.matchLabels = { a: 'b' }; }],
    ['terminationGracePeriodSeconds 40 is not 5 s longer', (o) => { pod(o).terminationGracePeriodSeconds = 40; }],
    ['terminationGracePeriodSeconds 30 is not 5 s longer', (o) => { delete pod(o).terminationGracePeriodSeconds; }],
    ['terminationGracePeriodSeconds 60 is not 5 s longer', (o) => { map(o).ATTENTIOND_DRAIN_SECONDS = '30'; }],
    ['more than half of 2Gi', (o) => { map(o).ATTENTIOND_SEQUENCE_MEMORY = '1073741824'; }],
    ['--http-port 8001 is no port', (o) => { map(o).ATTENTIOND_HTTP_PORT = '8001'; }],
    ['--http-address is not 0.0.0.0', (o) => { delete map(o).ATTENTIOND_HTTP_ADDRESS; }],
    ['runAsNonRoot is not true', (o) => { delete pod(o).securityContext.runAsNonRoot; }],
    ['readOnlyRootFilesystem is not true', (o) => { pod(o).containers[0].securityContext.readOnlyRootFilesystem = false; }],
    ['allowPrivilegeEscalation is not false', (o) => { delete pod(o).containers[0].securityContext.allowPrivilegeEscalation; }],
    ['seccomp is not RuntimeDefault', (o) => { delete pod(o).securityContext.seccompProfile; }],
    ['capabilities are kept', (o) => { pod(o).containers[0].securityContext.capabilities = { drop: ['NET_RAW'] }; }],
    ['has no tag', (o) => { pod(o).containers[0].image = 'localhost:5000/attentiond'; }],
    ['Service attentiond: it chooses no pods', (o) => { find(o, 'Service', 'attentiond').spec.selector = { a: 'b' }; }],
    ['port http: pods have no port gone', (o) => { find(o, 'Service', 'attentiond').spec.ports[0].targetPort = 'gone'; }],
    ['PodDisruptionBudget attentiond: it chooses no pods', (o) => { find(o, 'PodDisruptionBudget').spec.selector.matchLabels = { a: 'b' }; }],
    ['NetworkPolicy attentiond: it chooses no pods', (o) => { find(o, 'NetworkPolicy').spec.podSelector.matchLabels = { a: 'b' }; }],
    ['pods have no port gone', (o) => { find(o, 'NetworkPolicy').spec.ingress[0].ports[0].port = 'gone'; }],
    ['there is no Deployment gone', (o) => { find(o, 'HorizontalPodAutoscaler').spec.scaleTargetRef.name = 'gone'; }],
    ['has replicas of its own', (o) => { find(o, 'Deployment').spec.replicas = 2; }],
    ['minReplicas is above maxReplicas', (o) => { find(o, 'HorizontalPodAutoscaler').spec.minReplicas = 11; }],
    ['ServiceMonitor attentiond: it chooses 0 services', (o) => { find(o, 'ServiceMonitor').spec.selector.matchLabels = { a: 'b' }; }],
    ['it chooses 2 services', (o) => { delete find(o, 'ServiceMonitor').spec.selector.matchLabels['app.kubernetes.io/component']; }],
    ['services have no port http', (o) => { find(o, 'ServiceMonitor').spec.endpoints[0].port = 'http'; }],
];
