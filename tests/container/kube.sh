#!/usr/bin/env bash
# Does the Deployment of config/k8s run? podman plays it, with the image that is built here: kube.sh DAEMON. Needs what
# tests/k8s/packages.sh installs in $BUILD/k8s.
#
# What differs from the manifest is in the overlay below, and nothing else. Only Deployment and ConfigMap are played,
# the kinds that podman knows of those there are, and one replica: two would want the same ports of the host.
. "$(dirname "$0")/../integration/lib.sh"
. "$here/../container/lib.sh"
trap 'kube_gone; cleanup' EXIT
export NODE_PATH=$BUILD/k8s/node_modules
pod=attentiond-pod-0
container=$pod-attentiond

kube_gone() {
    timeout 60 podman pod rm -f -t 1 "$pod" >/dev/null 2>&1
}

built_or_finish have_image
kube_gone

# ---- the manifests, with what this machine cannot give ---------------------------------------
port=$(free_port)
admin=$(free_port)
base=http://127.0.0.1:$port
folder=$scratch/overlay
mkdir "$folder"
# overlay [VOLUME]: no network of pods, so the host's and free ports, which are not to be mapped; no registry; probes are
# asked below, since podman would run curl in the container, which is not there. With a folder as the volume of models.
overlay() {
    cat <<END
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
  - $(realpath --relative-to="$folder" "$container_top/config/k8s/base")
configMapGenerator:
  - name: attentiond
    behavior: merge
    literals:
      - ATTENTIOND_HTTP_PORT=$port
      - ATTENTIOND_HTTP_ADMIN_PORT=$admin
      - ATTENTIOND_DRAIN_SECONDS=2
END
    [ -z "$1" ] || cat <<END
      - ATTENTIOND_MODEL_NAME=demo
components:
  - $(realpath --relative-to="$folder" "$container_top/config/k8s/components/models")
END
    cat <<END
images:
  - name: localhost/attentiond
    newName: ${IMAGE%:*}
    newTag: ${IMAGE##*:}
patches:
  - target: {kind: Deployment, name: attentiond}
    patch: |-
      - {op: replace, path: /spec/replicas, value: 1}
      - {op: add, path: /spec/template/spec/hostNetwork, value: true}
      - {op: replace, path: /spec/template/spec/containers/0/imagePullPolicy, value: Never}
      - {op: remove, path: /spec/template/spec/containers/0/ports}
      - {op: remove, path: /spec/template/spec/containers/0/startupProbe}
      - {op: remove, path: /spec/template/spec/containers/0/readinessProbe}
      - {op: remove, path: /spec/template/spec/containers/0/livenessProbe}
END
    [ -z "$1" ] || cat <<END
      - {op: remove, path: /spec/template/spec/volumes/0/persistentVolumeClaim}
      - {op: add, path: /spec/template/spec/volumes/0/hostPath, value: {path: $1, type: Directory}}
END
}

render() { # FILE [VOLUME]
    overlay "${2:-}" >"$folder/kustomization.yaml"
    node "$container_top/tests/k8s/render.js" "$folder" ConfigMap Deployment >"$1"
}

play() { # FILE
    timeout 120 podman kube play "$1" >"$scratch/played" 2>&1
}

is_ready() {
    [ "$(curl -s -m 5 -o /dev/null -w '%{http_code}' "$base/v2/health/ready")" = 200 ]
}

about() { # TEMPLATE
    podman container inspect "$container" --format "$1"
}

# Begin to wait for the container's end; `ended` gives its exit status.
watch_end() {
    timeout 90 podman wait --interval 100ms "$container" >"$scratch/status" 2>/dev/null &
    waiter=$!
}

ended() {
    wait "$waiter"
    cat "$scratch/status"
}

# ---- it runs ---------------------------------------------------------------------------------
render "$scratch/kube.yaml"
holds "the manifests are rendered" test -s "$scratch/kube.yaml"
play "$scratch/kube.yaml"
code=$?
equal "podman plays them: $(tail -n 1 "$scratch/played")" 0 "$code"
if ! wait_for is_ready; then
    fail "ready" "$(podman logs "$container" 2>&1 | tail -n 5)"
    finish
fi
equal "by user" 10001:10001 "$(about '{{.Config.User}}')"
equal "read-only" true "$(about '{{.HostConfig.ReadonlyRootfs}}')"
equal "not privileged" false "$(about '{{.HostConfig.Privileged}}')"
pid=$(about '{{.State.Pid}}')
equal "no capability" 0000000000000000 "$(awk '/^CapEff/ {print $2}' "/proc/$pid/status")"
equal "no new privileges" 1 "$(awk '/^NoNewPrivs/ {print $2}' "/proc/$pid/status")"
equal "memory" $((2 << 30)) "$(about '{{.HostConfig.Memory}}')"
podman logs "$container" >"$scratch/log" 2>&1
holds "as many workers as the limit has processors" grep -q '"workers":2[,}]' "$scratch/log"

ask GET /v2/health/live
expect_status "live" 200
ask POST /v2/models/causal_steps/infer \
    -d '{"inputs":[{"name":"input","datatype":"FP32","shape":[1,1,8],"data":[1,0,0,0,0,0,0,0]}]}'
expect_status "infer" 200
expect_json "... with numbers" 'j["model_name"] == "causal_steps" and len(j["outputs"][0]["data"]) == 8'
ask GET /metrics
expect_status "metrics are not for clients" 404
base=http://127.0.0.1:$admin
ask GET /v2/health/live
expect_status "live, for operators" 200
ask GET /metrics
contains "metrics for operators" 'attentiond_queue_duration_seconds_sum{model="causal_steps"' "$scratch/body"
base=http://127.0.0.1:$port

# ---- it drains, and ends ---------------------------------------------------------------------
# `podman kube down` (4.3) kills at once, so the pod is stopped first, with the manifest's own patience.
grace=$(sed -nE 's/^ *terminationGracePeriodSeconds: ([0-9]+)$/\1/p' "$scratch/kube.yaml")
take_down() { # FILE
    timeout 90 podman pod stop -t "$grace" "$pod" && timeout 60 podman kube down "$1"
}
readiness() {
    curl -s -m 5 -o /dev/null -w '%{http_code}' "$base/v2/health/ready"
}
drains() {
    [ "$(readiness)" = 503 ]
}
watch_end
take_down "$scratch/kube.yaml" >"$scratch/down" 2>&1 &
down=$!
holds "down: not ready at once" wait_for drains
ask GET /v2/models/causal_steps
expect_status "down: it serves on" 200
equal "down: ... and closes" close "$(header Connection)"
wait "$down"
code=$?
equal "podman takes it down: $(tail -n 1 "$scratch/down")" 0 "$code"
equal "down: exit status" 0 "$(ended)"
holds "down: nothing is left" bash -c "! podman pod exists $pod"

# ---- as the model component has it -----------------------------------------------------------
# A repository on a volume, which here is a folder, and is one model.
mkdir "$scratch/volume"
cp -r "$container_top/config/models/causal_steps/." "$scratch/volume/"
chmod -R a+rX "$scratch"
render "$scratch/model.yaml" "$scratch/volume"
play "$scratch/model.yaml"
code=$?
equal "with a volume: $(tail -n 1 "$scratch/played")" 0 "$code"
holds "with a volume: ready" wait_for is_ready
ask GET /v2/models
expect_json "with a volume: one model, by its name" 'j == {"models": ["demo"]}'
watch_end
take_down "$scratch/model.yaml" >"$scratch/down" 2>&1
equal "with a volume: exit status" 0 "$(ended)"
finish
