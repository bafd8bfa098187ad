#!/usr/bin/env bash
# Are packed requests unpacked within their limits, and replies packed as the client asked, and only those?
. "$(dirname "$0")/lib.sh"
py "$here/models.py" repository "$scratch/models"
infer_path=/v2/models/mha/infer

pack_as() { # CODING
    case $1 in
    zstd) zstd -q -c ;;
    *) py "$here/coded.py" pack "$1" ;;
    esac
}

unpack_as() { # CODING
    case $1 in
    zstd) zstd -q -d -c ;;
    *) py "$here/coded.py" unpack "$1" ;;
    esac
}

# The file that is sent, packed or not: send FILE [CONTENT-ENCODING [CURL-ARGUMENTS...]]
send() {
    ask POST "$infer_path" --data-binary "@$1" -H 'Expect:' ${2:+-H "Content-Encoding: $2"} "${@:3}"
}

limit=$((8 << 20))
start_daemon --model-repository="$scratch/models" --http-max-input-size=$limit --workers=1

tensors() { # SHAPE [SIZE] of which query and key are zeros
    local name
    for name in query key value; do
        [ "$name" = query ] || printf ,
        binary_tensor $name FP32 "$1" "$2"
    done
}
# 3000 samples of one key: the answer is the values
n=3000
json=$(request "$(tensors "[$n,1,4]" $((n * 16)))")
py "$here/models.py" zeros $((n * 32)) >"$scratch/zeros"
py "$here/coded.py" floats $((n * 4)) >"$scratch/values"
printf '%s' "$json" | cat - "$scratch/zeros" "$scratch/values" >"$scratch/plain"
with_length=(-H "Inference-Header-Content-Length: ${#json}")

# ---- requests --------------------------------------------------------------------------------
send "$scratch/plain" '' "${with_length[@]}"
expect_status "a plain request" 200
cp "$scratch/body" "$scratch/expected"
send "$scratch/plain" identity "${with_length[@]}"
holds "identity: the same answer" cmp "$scratch/expected" "$scratch/body"
for coding in gzip deflate zstd; do
    pack_as $coding <"$scratch/plain" >"$scratch/$coding"
    send "$scratch/$coding" $coding "${with_length[@]}"
    expect_status "$coding" 200
    holds "$coding: the same answer" cmp "$scratch/expected" "$scratch/body"
    send "$scratch/$coding" $coding "${with_length[@]}" -H 'Transfer-Encoding: chunked'
    holds "$coding in chunks: the same answer" cmp "$scratch/expected" "$scratch/body"
    send "$scratch/$coding" ${coding^^} "${with_length[@]}"
    expect_status "${coding^^}" 200

    send "$scratch/$coding" $coding
    expect_error "$coding: the header's length is missing" 400 'JSON'
    size=$(stat -c %s "$scratch/plain")
    send "$scratch/$coding" $coding -H "Inference-Header-Content-Length: $((size + 1))"
    expect_error "$coding: the header's length counts what was unpacked" 400 \
        "inference header size should be in range (0, $size), got: $((size + 1))"
    size=$(stat -c %s "$scratch/$coding")
    send <(head -c $((size - 3)) "$scratch/$coding") $coding "${with_length[@]}"
    expect_error "$coding that is cut short" 400 "$coding|ends at offset $((size - 3))"
    send <(cat "$scratch/$coding" - <<<garbage) $coding "${with_length[@]}"
    expect_error "$coding with bytes behind it" 400 "$coding|offset $size of $((size + 8))"
    send "$scratch/plain" $coding "${with_length[@]}"
    expect_error "$coding that is none" 400 "not valid $coding|offset"
    send /dev/null $coding
    expect_error "$coding of no bytes" 400 'body is empty'
done
send "$scratch/gzip" X-Gzip "${with_length[@]}"
expect_status "X-Gzip is gzip" 200
zstd -q -c --no-content-size <"$scratch/plain" >"$scratch/of-unknown-size"
send "$scratch/of-unknown-size" zstd "${with_length[@]}"
holds "zstd of unknown size: the same answer" cmp "$scratch/expected" "$scratch/body"
for coding in gzip zstd; do
    { head -c 5000 "$scratch/plain" | pack_as $coding; tail -c +5001 "$scratch/plain" | pack_as $coding; } \
        >"$scratch/twice"
    send "$scratch/twice" $coding "${with_length[@]}"
    holds "$coding in two members: the same answer" cmp "$scratch/expected" "$scratch/body"
done
py -c 'import sys; b = bytearray(open(sys.argv[1], "rb").read()); b[-6] ^= 1; sys.stdout.buffer.write(b)' \
    "$scratch/gzip" >"$scratch/wrong-sum"
send "$scratch/wrong-sum" gzip "${with_length[@]}"
expect_error "gzip with a wrong checksum" 400 'gzip|data check'

for coding in br compress 'gzip, gzip' 'identity, gzip' 'gzip;q=1'; do
    send "$scratch/gzip" "$coding" "${with_length[@]}"
    expect_error "coding '$coding'" 415 "Content-Encoding|$coding"
    equal "coding '$coding': what may be sent" 'gzip, deflate, zstd' "$(header Accept-Encoding)"
done
send "$scratch/gzip" gzip "${with_length[@]}" -H 'Content-Encoding: gzip'
expect_error "two codings in two headers" 415 'several'
ask POST /v2/repository/index --data-binary "@$scratch/gzip" -H 'Content-Encoding: gzip'
expect_error "a coding on another route" 415 'gzip|identity'
equal "a coding on another route: what may be sent" identity "$(header Accept-Encoding)"
ask POST /v2/repository/index --data-binary '{}' -H 'Content-Encoding: identity'
expect_status "identity on another route" 200

# ---- limits ----------------------------------------------------------------------------------
is_sanitized() {
    grep -q -a -e __asan_init -e __tsan_init "$DAEMON" || [ -n "${VALGRIND:-}" ]
}

peak() { # in KiB
    sed -nE 's/^VmHWM:\s+([0-9]+) kB$/\1/p' "/proc/$daemon_pid/status"
}

stays_flat() { # NAME BEFORE KIB
    local grown=$(($(peak) - $2))
    is_sanitized || holds "$1: memory grew by at most $3 KiB, not $grown" [ "$grown" -le "$3" ]
}

py "$here/coded.py" bomb gzip $((1 << 30)) >"$scratch/bomb-gzip"
py "$here/coded.py" bomb deflate $((1 << 26)) >"$scratch/bomb-deflate"
head -c $((1 << 30)) /dev/zero | zstd -q -c >"$scratch/bomb-zstd"
head -c 10240 "$scratch/bomb-gzip" >"$scratch/bomb-10K"
for bomb in gzip deflate zstd 10K; do
    coding=${bomb/10K/gzip}
    before=$(peak)
    send "$scratch/bomb-$bomb" "$coding"
    expect_error "a $bomb bomb" 413 'http-max-input-size|8388608'
    stays_flat "a $bomb bomb" "$before" $(((limit >> 10) + (12 << 10)))
done
before=$(peak)
for ((i = 0; i < 10; i++)); do
    send "$scratch/bomb-gzip" gzip
    send "$scratch/bomb-zstd" zstd
done
expect_status "the last of twenty bombs" 413
stays_flat "twenty bombs more" "$before" 4096
send "$scratch/gzip" gzip "${with_length[@]}"
holds "the daemon lives and computes" cmp "$scratch/expected" "$scratch/body"

# ---- replies ---------------------------------------------------------------------------------
json_reply=(-d "$(request "$(tensor query FP32 '[1,1,4]' '[0,0,0,0]'),$(tensor key FP32 '[1,1,4]' '[0,0,0,0]'),$(
    tensor value FP32 '[1,1,4]' '[1,2,3,4]')")")
ask POST "$infer_path" "${json_reply[@]}" --compressed
expect_status "a short reply" 200
equal "a short reply is as it is" '' "$(header Content-Encoding)"
equal "a short reply varies all the same" Accept-Encoding "$(header Vary)"

# A reply of a request is what it was, packed as expected: reply_as NAME EXPECTED-CODING ACCEPT-ENCODING
reply_as() {
    send "$scratch/plain" '' "${with_length[@]}" ${3+-H "Accept-Encoding:$3"}
    equal "$1: coding" "$2" "$(header Content-Encoding)"
    equal "$1: varies" Accept-Encoding "$(header Vary)"
    equal "$1: length" "$(stat -c %s "$scratch/body")" "$(header Content-Length)"
    equal "$1: type" application/json "$(header Content-Type)"
    if [ -n "$2" ]; then
        holds "$1: unpacks" unpacks "$2"
        holds "$1: is smaller" smaller_than "$scratch/expected" "$scratch/body"
        holds "$1: is the same" cmp "$scratch/expected" "$scratch/unpacked"
    else
        holds "$1: is the same" cmp "$scratch/expected" "$scratch/body"
    fi
}
unpacks() { # CODING
    unpack_as "$1" <"$scratch/body" >"$scratch/unpacked"
}
smaller_than() { # FILE FILE
    [ $(($(stat -c %s "$2") * 10)) -lt $(($(stat -c %s "$1") * 6)) ]
}
reply_as "no Accept-Encoding" ''
while IFS='|' read -r accept coding; do
    reply_as "Accept-Encoding: $accept" "$coding" " $accept"
done <<'END'
gzip|gzip
x-gzip|gzip
deflate|deflate
zstd|zstd
gzip, deflate|gzip
gzip, deflate, br, zstd|zstd
gzip;q=0.5, deflate;q=0.8|deflate
gzip;q=0|
identity;q=0.9, gzip;q=0.5|
identity;q=0.5, gzip|gzip
br|
*|
identity;q=0|
identity;q=0, *|zstd
END
send "$scratch/plain" '' "${with_length[@]}" --compressed
holds "curl --compressed takes it" cmp "$scratch/expected" "$scratch/body"
pack_as gzip <"$scratch/plain" >"$scratch/gzip"
send "$scratch/gzip" gzip "${with_length[@]}" --compressed
holds "packed both ways" cmp "$scratch/expected" "$scratch/body"

# ---- replies in bytes ------------------------------------------------------------------------
json=$(request "$(tensors "[$n,1,4]" $((n * 16)))" '"parameters":{"binary_data_output":true}')
with_length=(-H "Inference-Header-Content-Length: ${#json}")
binary_as() { # NAME EXPECTED-CODING
    printf '%s' "$json" | cat - "$scratch/zeros" "$scratch/values" >"$scratch/plain"
    send "$scratch/plain" '' "${with_length[@]}"
    cp "$scratch/body" "$scratch/expected"
    local length
    length=$(header Inference-Header-Content-Length)
    send "$scratch/plain" '' "${with_length[@]}" -H 'Accept-Encoding: gzip'
    equal "$1: coding" "$2" "$(header Content-Encoding)"
    equal "$1: type" application/octet-stream "$(header Content-Type)"
    equal "$1: its JSON's length is that of the plain reply" "$length" "$(header Inference-Header-Content-Length)"
    [ -z "$2" ] || { unpacks "$2" && cp "$scratch/unpacked" "$scratch/body"; }
    holds "$1: is the same" cmp "$scratch/expected" "$scratch/body"
    reply_bytes
    holds "$1: holds the values" cmp "$scratch/values" "$scratch/bytes"
}
binary_as "bytes that do not shrink" ''
py "$here/models.py" zeros $((n * 16)) >"$scratch/values"
binary_as "bytes that do" gzip
pack_as gzip <"$scratch/plain" >"$scratch/gzip"

# ---- what is never packed --------------------------------------------------------------------
plain_headers() { # NAME
    equal "$1: no coding" '' "$(header Content-Encoding)"
    equal "$1: does not vary" '' "$(header Vary)"
}
accept=(-H 'Accept-Encoding: gzip, deflate, zstd')
for path in /v2 /v2/models/mha /v2/models/mha/config /v2/models/stats /metrics /v2/health/ready; do
    ask GET "$path" "${accept[@]}"
    plain_headers "GET $path"
done
ask HEAD /v2/models/mha "${accept[@]}"
expect_status "HEAD" 200
plain_headers "HEAD"
ask HEAD "$infer_path" "${accept[@]}"
expect_status "HEAD of infer" 405
plain_headers "HEAD of infer"
long=$(printf 'x%.0s' {1..2000})
infer mha "$(request "$(tensor "$long" FP32 '[1]' '[1]')")" "${accept[@]}"
expect_error "an error" 400 'unknown input'
plain_headers "an error"

# ---- a timeout inside ------------------------------------------------------------------------
write_heavy 32
heavy -o /dev/null &
heavy_pid=$!
wait_for metric_is 1 attentiond_requests_running 'model="mha"'
sleep 0.05
printf '%s' "$(request "$(tensor query FP32 '[1,1,4]' '[0,0,0,0]'),$(tensor key FP32 '[1,1,4]' '[0,0,0,0]'),$(
    tensor value FP32 '[1,1,4]' '[1,2,3,4]')" '"parameters":{"timeout":1000}')" | pack_as gzip >"$scratch/hurried"
send "$scratch/hurried" gzip
expect_error "a packed request whose timeout passed before it was unpacked" 503 'timeout expired'
wait "$heavy_pid"
stop_daemon "it stops"

# ---- the memory of waiting bodies ------------------------------------------------------------
start_daemon --model-repository="$scratch/models" --queue-memory=1048576
send "$scratch/bomb-gzip" gzip
expect_error "more than bodies may take, once unpacked" 413 'queue-memory|1048576'
head -c $((1 << 30)) /dev/zero | zstd -q -c --stream-size=$((1 << 30)) >"$scratch/bomb-zstd"
send "$scratch/bomb-zstd" zstd
expect_error "more than any body may take, as it says" 413 'http-max-input-size'
for ((i = 0; i < 20; i++)); do
    send "$scratch/gzip" gzip "${with_length[@]}"
done
expect_status "what was held was given back" 200
holds "nothing is held any more" wait_for metric_is 0 attentiond_queue_bytes
stop_daemon "it stops again"

# ---- no packing ------------------------------------------------------------------------------
start_daemon --model-repository="$scratch/models" --http-compression-level=0
send "$scratch/gzip" gzip "${with_length[@]}" "${accept[@]}"
expect_status "level 0 unpacks" 200
plain_headers "level 0"
finish
