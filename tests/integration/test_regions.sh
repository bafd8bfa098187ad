#!/usr/bin/env bash
# Shared memory: off unless allowed; then do tensors come and go by it, and does nothing that another process does with
# it take the daemon down?
. "$(dirname "$0")/lib.sh"
py "$here/models.py" repository "$scratch/models"

# ---- off -------------------------------------------------------------------------------------
start_daemon --model-repository="$scratch/models"
for route in status region/r/status; do
    ask GET "/v2/systemsharedmemory/$route"
    expect_error "GET $route while it is off" 501 '--allow-client-shm'
done
for route in unregister region/r/unregister region/r/register; do
    ask POST "/v2/systemsharedmemory/$route" --data '{"key":"/x","offset":0,"byte_size":1}'
    expect_error "POST $route while it is off" 501 '--allow-client-shm'
done
in_region='{"name":"input","datatype":"FP32","shape":[1,1,4],"parameters":{"shared_memory_region":"r","shared_memory_byte_size":16}}'
infer causal "$(request "$in_region")"
expect_error "an input while it is off" 501 'input|shared_memory_region|--allow-client-shm'
infer causal "$(request "$(tensor input FP32 '[1,1,4]' '[1,2,3,4]')" \
    '"outputs":[{"name":"output","parameters":{"shared_memory_region":"r","shared_memory_byte_size":16}}]')"
expect_error "an output while it is off" 501 'output|shared_memory_region|--allow-client-shm'
ask GET /v2
expect_json "it is no extension while it is off" '"system_shared_memory" not in j["extensions"]'
stop_daemon "it stops"

# ---- on --------------------------------------------------------------------------------------
start_daemon --model-repository="$scratch/models" --allow-client-shm --workers=2
ask GET /v2
expect_json "it is an extension" '"system_shared_memory" in j["extensions"]'
ask GET /v2/systemsharedmemory/status
equal "no region at first" '[]' "$(cat "$scratch/body")"
ask POST /v2/systemsharedmemory/unregister
expect_status "unregister all without a body or length" 200
equal "an empty answer with its length" 0 "$(header Content-Length)"
ask POST /v2/systemsharedmemory/region/none/unregister --data '{}'
expect_status "unregister what is not there" 200
ask POST /v2/systemsharedmemory/unregister --data '{"x":1}'
expect_error "a body that is not known" 400 'expected nothing'
ask GET /v2/systemsharedmemory/region/none/status
expect_error "the status of what is not there" 404 "unknown shared memory region 'none'"
ask DELETE /v2/systemsharedmemory/region/none
expect_error "another path" 404 'Not Found'
ask POST /v2/systemsharedmemory/status
expect_error "another verb" 405 'GET'
infer causal "$(request "$in_region")"
expect_error "a region that is not there" 400 "input|unknown shared memory region 'r'"
port=${base##*:}
holds "a client that shares memory" py "$here/regions.py" "$port" use
holds "what is refused" py "$here/regions.py" "$port" wrong
holds "a sparse object" py "$here/regions.py" "$port" large
holds "many regions" py "$here/regions.py" "$port" many
holds "objects that are cut short under requests" py "$here/regions.py" "$port" storm
holds "the memory of requests is given back" wait_for metric_is 0 attentiond_queue_bytes
none_open() {
    ! find "/proc/$daemon_pid/fd" -lname '*attentiond_test*' | grep -q .
}
holds "no object is left open" none_open
finish
