#!/usr/bin/env bash
# Is a request that finds the queue full refused at once, with a hint when to come back, and is none
# lost?
. "$(dirname "$0")/lib.sh"
py "$here/models.py" repository "$scratch/models"
start_daemon --model-repository="$scratch/models" --queue-size=1 --workers=1

write_heavy 12
mkdir "$scratch/answers"
for n in $(seq 1 12); do
    heavy -o "$scratch/answers/$n.body" -D "$scratch/answers/$n.head" -w '%{http_code}' >"$scratch/answers/$n.status" &
    [ "$n" -gt 1 ] || wait_for is_at_work
done
sleep 0.2
ask GET /v2/health/live
expect_status "the daemon answers while it is busy" 200
ask GET /v2/models/mha
expect_status "metadata too" 200
for job in $(jobs -p); do
    [ "$job" = "$daemon_pid" ] || wait "$job"
done

served=0
refused=0
for n in $(seq 1 12); do
    case $(cat "$scratch/answers/$n.status") in
    200)
        served=$((served + 1))
        ;;
    503)
        refused=$((refused + 1))
        holds "a refusal says when to come back" grep -qiE '^Retry-After: [0-9]+' "$scratch/answers/$n.head"
        contains "a refusal says why" '"error"|queue' "$scratch/answers/$n.body"
        ;;
    *)
        fail "an answer" "status $(cat "$scratch/answers/$n.status")"
        ;;
    esac
done
equal "every request is answered" 12 $((served + refused))
holds "some were served ($served)" [ "$served" -ge 2 ]
holds "some were refused ($refused)" [ "$refused" -ge 1 ]
infer mha "$(request "$(tensor query FP32 '[1,1,4]' '[0,0,0,0]'),$(tensor key FP32 '[1,1,4]' '[0,0,0,0]'),$(
    tensor value FP32 '[1,1,4]' '[1,2,3,4]')")"
expect_status "afterwards it serves again" 200
finish
