#!/usr/bin/env bash
# Does a daemon that served 1,200 mixed good and bad requests and was stopped leave no byte lost, and
# did it never touch memory that is not its own? valgrind.sh DAEMON
. "$(dirname "$0")/lib.sh"
py "$here/models.py" repository "$scratch/models"
mkdir "$scratch/models/broken"
echo '{"layer": {"kind": "nonsense"}}' >"$scratch/models/broken/config.json"
PATIENCE=120
program=$DAEMON
cat >"$scratch/daemon" <<END
#!/bin/sh
exec valgrind --quiet --error-exitcode=99 --leak-check=full --show-leak-kinds=definite,possible \
    --errors-for-leak-kinds=definite,possible --log-file="$scratch/valgrind" "$program" "\$@"
END
chmod +x "$scratch/daemon"
DAEMON=$scratch/daemon
export OPENBLAS_NUM_THREADS=1
start_daemon --model-repository="$scratch/models" --workers=2

query=$(tensor query FP32 '[1,1,4]' '[0,0,0,0]')
key=$(tensor key FP32 '[1,2,4]' '[1,0,0,0,0,1,0,0]')
value=$(tensor value FP32 '[1,2,4]' '[1,2,3,4,3,4,5,6]')
json=$(request "$(binary_tensor query FP32 '[1,1,4]' 16),$key,$value" '"parameters":{"binary_data_output":true}')
{ printf '%s' "$json"; head -c 16 /dev/zero; } >"$scratch/bytes"
{ printf '%s' "$json"; head -c 12 /dev/zero; } >"$scratch/too-few"
request "$query,$key,$value" '"outputs":[{"name":"out"},{"name":"attention"}],"id":"x"' >"$scratch/good"
request "$query,$key" >"$scratch/missing"
request "$(tensor query FP32 '[1,1,4]' '[NaN,0,0,0]'),$key,$value" >"$scratch/nan"
request "$(tensor queries FP32 '[1,1,1,2]' '[0,0]'),$(tensor keys FP32 '[1,2,1,2]' '[1,0,0,0]'),$(
    tensor values FP32 '[1,2,1,2]' '[1,2,3,4]'),$(tensor edges INT64 '[1,3]' '[0,0,5]'),$(
    tensor edge_types INT64 '[1]' '[0]')" >"$scratch/edge"
request "$(tensor k FP32 '[1,2,4]' '[1,0,0,0,0,1,0,0]'),$(tensor v FP32 '[1,2,4]' '[1,2,3,4,3,4,5,6]'),$(
    tensor q FP32 '[1,1,4]' '[0,0,0,0]'),$(tensor mask BOOL '[1,1,2]' '[false,false]')" >"$scratch/blocked"
cotangent=$(tensor grad_output FP32 '[1,1,4]' '[1,2,3,4]')
request "$query,$key,$value,$cotangent" >"$scratch/gradient"
request "$query,$key,$value,$(tensor grad_output FP32 '[1,1,3]' '[1,2,3]')" >"$scratch/bad-gradient"
request "$query,$key,$value" '"parameters":{"training":true,"samples":3},"outputs":[{"name":"out.variance"}]' \
    >"$scratch/samples"
request "$query,$key,$value" '"parameters":{"training":true,"samples":0}' >"$scratch/bad-samples"

echo 'junk' >"$scratch/junk"
: >"$scratch/nothing"

# One request as curl reads it from a file, and the status that must come.
add() { # STATUS PATH FILE [HEADER-LENGTH]
    echo "$1" >>"$scratch/expected"
    [ ! -s "$scratch/requests" ] || echo next >>"$scratch/requests"
    {
        printf 'url = "%s%s"\nsilent\nmax-time = %s\noutput = /dev/null\n' "$base" "$2" "$PATIENCE"
        printf 'write-out = "%%{http_code}\\n"\n'
        [ "$3" = - ] || printf 'data-binary = "@%s"\n' "$scratch/$3"
        [ -z "${4:-}" ] || printf 'header = "Inference-Header-Content-Length: %s"\n' "$4"
    } >>"$scratch/requests"
}

for _ in $(seq 1 50); do
    add 200 /v2/models/mha/infer good
    add 200 /v2/models/mha/infer bytes ${#json}
    add 400 /v2/models/mha/infer too-few ${#json}
    add 400 /v2/models/mha/infer bytes
    add 400 /v2/models/mha/infer missing
    add 400 /v2/models/mha/infer nan
    add 400 /v2/models/mha/infer junk
    add 400 /v2/models/mha/infer nothing
    add 400 /v2/models/relational/infer edge
    add 422 /v2/models/nan/infer blocked
    add 200 /v2/models/speech/infer blocked
    add 400 /v2/models/speech/infer good
    add 200 /v2/models/versions/versions/2/infer good
    add 404 /v2/models/nobody/infer good
    add 503 /v2/models/broken/infer good
    add 405 /v2/models/mha/infer -
    add 200 /v2/models/mha -
    add 200 /v2/models/relational/config -
    add 200 /v2/repository/index nothing
    add 404 /v2/nowhere -
    add 200 /v2/models/mha/gradient gradient
    add 400 /v2/models/mha/gradient bad-gradient
    add 200 /v2/models/mha/infer samples
    add 400 /v2/models/mha/infer bad-samples
done
equal "so many requests" 1200 "$(wc -l <"$scratch/expected")"
curl -K "$scratch/requests" >"$scratch/statuses"
holds "each got its status" cmp "$scratch/expected" "$scratch/statuses"
stop_daemon "no error, no byte lost, exit status 0"
holds "valgrind was there" test -e "$scratch/valgrind"
equal "valgrind has nothing to say" '' "$(head -n 40 "$scratch/valgrind")"
finish
