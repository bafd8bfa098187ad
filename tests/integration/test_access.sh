#!/usr/bin/env bash
# Is every route open to whom it should be, and to nobody else: API keys, pages of other origins, clients
# behind proxies?
. "$(dirname "$0")/lib.sh"
py "$here/models.py" repository "$scratch/models"
good=$(request "$(tensor query FP32 '[1,1,4]' '[0,0,0,0]'),$(tensor key FP32 '[1,2,4]' '[1,0,0,0,0,1,0,0]'),$(
    tensor value FP32 '[1,2,4]' '[1,2,3,4,3,4,5,6]')")
all=$(openssl rand -hex 32 2>/dev/null || head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n')
some=key-of-some
slow=key-of-slow
root=key-of-root

key() { # NAME KEY [MEMBERS]
    printf '{"name":"%s","sha256":"%s"%s}' "$1" "$(printf %s "$2" | sha256sum | cut -c 1-64)" "${3:+,$3}"
}

# Put these keys into the file, at once.
write_keys() { # KEYS...
    (IFS=,; printf '{"keys":[%s]}' "$*") >"$scratch/keys.new"
    mv "$scratch/keys.new" "$scratch/keys.json"
}

as() { # KEY VERB PATH [CURL-ARGUMENTS...]
    ask "${@:2}" -H "Authorization: Bearer $1"
}

rejected() { # REASON
    as "$root" GET /metrics
    sed -nE "s/^attentiond_requests_rejected_total\{reason=\"$1\"\} //p" "$scratch/body"
}

# The last line of the log that tells of a refusal.
refusal() {
    grep ' refused ' "$scratch/log" | tail -n 1
}

# ---- options that are no good ----------------------------------------------------------------
refuses() { # NAME TEXTS OPTIONS...
    timeout "$PATIENCE" "$DAEMON" --model-repository="$scratch/models" --http-port=0 "${@:3}" >"$scratch/said" 2>&1
    equal "$1: no start" 1 $?
    contains "$1" "$2" "$scratch/said"
    timeout "$PATIENCE" "$DAEMON" --model-repository="$scratch/models" --check-config "${@:3}" >"$scratch/said" 2>&1
    equal "$1: --check-config fails" 1 $?
    contains "$1: --check-config" "$2" "$scratch/said"
}

write_keys "$(key a a)" "$(key b b '"rate":0')"
refuses "a bad rate" "$scratch/keys.json: keys[1].rate: expected|got 0" --api-keys="$scratch/keys.json"
refuses "a file that is not there" "$scratch/none.json" --api-keys="$scratch/none.json"
refuses "an origin with a path" "--cors-allow-origins|'https://a.example/'" --cors-allow-origins=https://a.example/
refuses "a network out of range" "--trusted-proxies|'10.0.0.0/40'" --trusted-proxies=127.0.0.1,10.0.0.0/40

# ---- without any of it -----------------------------------------------------------------------
start_daemon --model-repository="$scratch/models" --log-level=debug
ask GET /v2/models -H 'Authorization: Bearer x' -H 'X-API-Key: y' -H 'Origin: https://a.example'
expect_status "no keys are needed unless there are some" 200
equal "... and browsers are told nothing" '' "$(grep -i -e access-control -e vary "$scratch/head")"
ask OPTIONS /v2/models/mha/infer -H 'Origin: https://a.example' -H 'Access-Control-Request-Method: POST'
expect_error "a preflight without origins" 405 POST
infer mha "$good" -H 'X-Forwarded-For: 203.0.113.9'
expect_status "who is not a trusted proxy is served" 200
contains "... and not believed" "client=127.0.0.1" "$scratch/log"
stop_daemon "without access control: stops"

# ---- keys ------------------------------------------------------------------------------------
keys=("$(key all "$all")" "$(key some "$some" '"models":["mha","vers*"]')" \
    "$(key slow "$slow" '"rate":0.02,"burst":3')" "$(key root "$root" '"models":[],"admin":true')")
write_keys "${keys[@]}"
start_daemon --model-repository="$scratch/models" --model-control-mode=explicit --load-model=mha,causal,versions \
    --api-keys="$scratch/keys.json"

for path in /v2/health/live /v2/health/ready /v2/models/mha/ready; do
    ask GET "$path"
    expect_status "$path needs no key" 200
done
while read -r verb path; do
    ask "$verb" "$path"
    expect_error "$verb $path without a key" 401 Bearer
    equal "$verb $path: how to get in" Bearer "$(header WWW-Authenticate)"
    as "${all%?}" "$verb" "$path"
    expect_error "$verb $path with a wrong key" 401 key
    equal "$verb $path: how to get in, again" Bearer "$(header WWW-Authenticate)"
done <<END
GET /v2
GET /v2/models
GET /v2/models/mha
GET /v2/models/nobody
GET /v2/models/mha/config
GET /v2/models/mha/stats
GET /v2/models/stats
GET /v2/logging
GET /metrics
POST /v2/models/mha/infer
POST /v2/models/nobody/infer
POST /v2/models/mha/gradient
POST /v2/repository/index
POST /v2/repository/models/mha/unload
END
ask GET /v2/nothing
expect_error "an unknown path is unknown to all" 404 ''
ask DELETE /v2/models/mha/infer
expect_error "a wrong verb is wrong for all" 405 ''

for how in "Authorization: Bearer $all" "authorization: bearer $all" "X-API-Key: $all"; do
    ask GET /v2/models -H "$how"
    expect_status "a key as ${how%% *}" 200
done
ask GET /v2/models -H "Authorization: Bearer $all" -H "X-API-Key: $all"
expect_status "the same key twice" 200
ask GET /v2/models -H "Authorization: Bearer $all" -H "X-API-Key: $some"
expect_error "two different keys" 400 'X-API-Key'
ask GET /v2/models -H "Authorization: Bearer $all" -H "Authorization: Bearer $some"
expect_error "one header twice" 400 Authorization
ask GET /v2/models -H "Authorization: Basic $all"
expect_error "another scheme" 401 Bearer

infer mha "$good" -H "X-API-Key: $all"
expect_status "infer with a key" 200
infer nobody "$good" -H "X-API-Key: $all"
expect_error "a model that is not there" 404 nobody
as "$all" GET /metrics
expect_error "operators' routes are not for everybody" 403 all
as "$all" POST /v2/repository/models/mha/unload
expect_error "... unload neither" 403 all

# ---- the list of a key's models --------------------------------------------------------------
infer mha "$good" -H "X-API-Key: $some"
expect_status "a model of the list" 200
as "$some" GET /v2/models/versions/versions/1
expect_status "... by the beginning of its name" 200
as "$some" GET /v2/models
expect_json "only these are listed" 'j["models"] == ["mha", "versions"]'
as "$all" GET /v2/models
expect_json "... all without a list" '"causal" in j["models"]'
for path in '' /config /versions/1 /versions/9; do
    as "$some" GET "/v2/models/causal$path"
    expect_error "another model: $path" 403 causal
    cp "$scratch/body" "$scratch/causal"
    as "$some" GET "/v2/models/nobody$path"
    equal "... like one that is not there: $path" "$(sed s/causal/nobody/ "$scratch/causal")" "$(cat "$scratch/body")"
done
for model in causal nobody; do
    infer $model "$good" -H "X-API-Key: $some"
    expect_error "infer: $model" 403 "$model"
done

# ---- operators -------------------------------------------------------------------------------
for path in /metrics /v2/logging /v2/models/stats /v2/models/mha/stats; do
    as "$root" GET "$path"
    expect_status "operators: $path" 200
done
as "$root" POST /v2/repository/index
expect_status "operators: index" 200
as "$root" POST /v2/repository/models/mha/load
expect_status "operators: load" 200
infer mha "$good" -H "X-API-Key: $root"
expect_error "a key for operators alone" 403 mha
as "$root" GET /v2/models
expect_json "... sees no models" 'j["models"] == []'

# ---- the rate --------------------------------------------------------------------------------
for ((i = 0; i < 10; i++)); do
    as "$slow" GET /v2/models/mha
done
expect_status "looking costs nothing" 200
infer nobody "$good" -H "X-API-Key: $slow"
expect_status "a token for nothing" 404
gradient mha "$good" # without a key
as "$slow" POST /v2/models/mha/gradient --data-binary "$good"
expect_status "a token for a bad request" 400
infer mha "$good" -H "X-API-Key: $slow"
expect_status "the last token" 200
infer mha "$good" -H "X-API-Key: $slow"
expect_error "over the rate" 429 "slow|rate"
holds "... when to come again" test "$(header Retry-After)" -ge 40 -a "$(header Retry-After)" -le 50
contains "... logged with its name" "client=127.0.0.1|method=POST|model=mha|status=429|key=slow" <(refusal)
as "$slow" GET /v2/models/mha
expect_status "... and looking goes on" 200
infer mha "$good" -H "X-API-Key: $all"
expect_status "... as does another key" 200

# ---- before the body -------------------------------------------------------------------------
head -c 3000000 /dev/zero >"$scratch/zeros"
port=${base##*:}
holds "Expect: 401 at once, without the body" py "$here/access.py" "$port" expect ''
holds "Expect: 429 at once" py "$here/access.py" "$port" expect "$slow" 429
holds "Expect: 403 at once" py "$here/access.py" "$port" expect "$root" 403
ask POST /v2/models/mha/infer --data-binary "@$scratch/zeros" -H 'Expect:'
expect_error "a body that comes anyway is thrown away" 401 ''
ask POST /v2/models/mha/infer --data-binary "@$scratch/zeros" -H 'Expect:' -H 'Transfer-Encoding: chunked'
expect_error "... a chunked one too" 401 ''
holds "the connection stays in use" py "$here/access.py" "$port" again "$all"

# ---- what is written down --------------------------------------------------------------------
ask POST /v2/models/mha/infer --data-binary "$good"
contains "who has no key is logged" "INFO|client=127.0.0.1|route=/v2/models/{model}/infer|status=401" <(refusal)
equal "... without a name" '' "$(refusal | grep -o key=)"
equal "... and once" 1 "$(grep -c "$(header X-Request-Id)" "$scratch/log")"
as "$some" GET /v2/models/causal
contains "who may not is logged" "route=/v2/models/{model} |model=causal|status=403|key=some" <(refusal)
n_before=$(rejected unauthorized)
for ((i = 0; i < 5; i++)); do
    ask GET /v2
done
equal "rejections are counted: unauthorized" $((n_before + 5)) "$(rejected unauthorized)"
n_before=$(rejected forbidden)
as "$all" GET /metrics
equal "... forbidden" $((n_before + 1)) "$(rejected forbidden)"
equal "... rate" 2 "$(rejected rate)"
as "$root" GET /metrics
holds "... by code" grep -q 'attentiond_http_requests_total{route="/v2/models/{model}/infer",method="POST",code="429"} 2' "$scratch/body"
equal "no key is in the log" 0 "$(grep -c -e "$all" -e key-of "$scratch/log")"
ask OPTIONS /v2 -H 'Origin: https://a.example' -H 'Access-Control-Request-Method: GET'
expect_error "keys alone allow no preflight" 405 ''

# ---- reload ----------------------------------------------------------------------------------
reads() { # N: the keys have been read that many times
    [ "$(grep -c 'API keys read' "$scratch/log")" -ge "$1" ]
}

write_keys "${keys[0]}" "${keys[2]}" "${keys[3]}" "$(key new new)"
kill -HUP "$daemon_pid"
wait_for reads 2
ask GET /v2/models -H 'X-API-Key: new'
expect_status "reload: a new key opens" 200
ask GET /v2/models -H "X-API-Key: $some"
expect_status "reload: one that is gone does not" 401
infer mha "$good" -H "X-API-Key: $slow"
expect_error "reload: no new tokens" 429 slow
echo '{"keys":[{"name":"new"}]}' >"$scratch/keys.json"
kill -HUP "$daemon_pid"
wait_for grep -q 'cannot reload the API keys' "$scratch/log"
contains "reload: a bad file is refused with the reason" 'ERROR|keys.json: keys[0].sha256: expected' \
    <(grep 'cannot reload the API keys' "$scratch/log")
ask GET /v2/models -H 'X-API-Key: new'
expect_status "reload: ... and the old keys stay" 200
write_keys "${keys[@]}"
holds "reload: nobody is turned away meanwhile" py "$here/access.py" "$port" reload "$all" "$daemon_pid" 40
stop_daemon "keys: stops"

# ---- pages of other origins ------------------------------------------------------------------
start_daemon --model-repository="$scratch/models" --api-keys="$scratch/keys.json" \
    --cors-allow-origins='https://a.example, http://localhost:3000'
page=(-H 'Origin: https://a.example')
other=(-H 'Origin: https://b.example')
preflight=(-H 'Access-Control-Request-Method: POST')
ask OPTIONS /v2/models/mha/infer "${page[@]}" "${preflight[@]}" -H 'Access-Control-Request-Headers: authorization,x-mine'
expect_status "preflight" 204
equal "preflight: origin" https://a.example "$(header Access-Control-Allow-Origin)"
equal "preflight: methods" POST "$(header Access-Control-Allow-Methods)"
equal "preflight: headers" authorization,x-mine "$(header Access-Control-Allow-Headers)"
equal "preflight: how long" 7200 "$(header Access-Control-Max-Age)"
equal "preflight: Vary" Origin "$(header Vary)"
equal "preflight: no credentials" '' "$(header Access-Control-Allow-Credentials)"
equal "preflight: no body" '' "$(header Content-Type)$(header Content-Length)$(cat "$scratch/body")"
ask OPTIONS /v2/logging -H 'Origin: http://localhost:3000' "${preflight[@]}" -H 'Access-Control-Request-Headers: a;b'
expect_status "preflight of another route" 204
equal "... its methods" 'GET, HEAD, POST' "$(header Access-Control-Allow-Methods)"
holds "... headers that are none are not repeated" grep -qi '^Access-Control-Allow-Headers:.*X-API-Key' "$scratch/head"
ask OPTIONS /v2/nothing "${page[@]}" "${preflight[@]}"
expect_error "preflight of no route" 404 ''
ask OPTIONS /v2/models/mha/infer "${other[@]}" "${preflight[@]}"
expect_error "preflight of another origin" 403 'https://b.example'
equal "... says nothing to a browser" '' "$(grep -i access-control "$scratch/head")"
ask OPTIONS /v2/models/mha/infer "${page[@]}"
expect_error "OPTIONS that is no preflight" 405 ''

infer mha "$good" "${page[@]}" -H "X-API-Key: $all"
expect_status "a page's request" 200
equal "... its origin" https://a.example "$(header Access-Control-Allow-Origin)"
contains "... what it may read" 'Inference-Header-Content-Length|X-Request-Id|Retry-After' \
    <(header Access-Control-Expose-Headers)
equal "... Vary" Origin "$(header Vary)"
ask GET /v2 "${page[@]}"
expect_error "an error for a page" 401 ''
equal "... can be read by it" https://a.example "$(header Access-Control-Allow-Origin)"
ask GET /v2/nothing "${page[@]}"
expect_error "an unknown path for a page" 404 ''
equal "... can be read by it" https://a.example "$(header Access-Control-Allow-Origin)"
ask GET /v2/health/live "${other[@]}"
expect_status "another origin is served, for others than browsers" 200
equal "... without a word to them" '' "$(grep -i access-control "$scratch/head")"
equal "... but to caches" Origin "$(header Vary)"
ask GET /v2/health/live -H "Origin: https://a.example evil"
equal "no origin is sent back that is not allowed" '' "$(grep -i access-control "$scratch/head")"
holds "the connection stays in use after a preflight" py "$here/access.py" "${base##*:}" preflight
stop_daemon "origins: stops"

start_daemon --model-repository="$scratch/models" --cors-allow-origins='*' --trusted-proxies='127.0.0.0/8' --log-level=debug
ask OPTIONS /v2/models/mha/infer "${other[@]}" "${preflight[@]}"
expect_status "all origins: preflight" 204
equal "all origins" '*' "$(header Access-Control-Allow-Origin)"
equal "all origins: no Vary" '' "$(header Vary)"
contains "all origins: the headers that we know" 'Authorization|Content-Type' <(header Access-Control-Allow-Headers)

# ---- proxies ---------------------------------------------------------------------------------
from() { # CLIENT CURL-ARGUMENTS...
    infer mha "$good" "${@:2}"
    contains "client of ${*:2}" " client=$1 " <(grep "$(header X-Request-Id)" "$scratch/log")
}

from 127.0.0.1
from 203.0.113.9 -H 'X-Forwarded-For: 198.51.100.1, 203.0.113.9'
from 203.0.113.9 -H 'X-Forwarded-For: 203.0.113.9, 127.0.0.7'
from 203.0.113.9 -H 'X-Forwarded-For: 198.51.100.1' -H 'X-Forwarded-For: 203.0.113.9' -H 'X-Forwarded-For: 127.0.0.7'
from 2001:db8::9 -H 'Forwarded: for="[2001:db8::9]:4711";proto=https'
from 203.0.113.9 -H 'Forwarded: for=203.0.113.9' -H 'X-Forwarded-For: 198.51.100.1'
from 127.0.0.1 -H 'Forwarded: for=unknown' -H 'X-Forwarded-For: 198.51.100.1'
from 127.0.0.1 -H 'X-Forwarded-For: nonsense'
finish
