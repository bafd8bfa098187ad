#!/usr/bin/env bash
# Do the packages install in a fresh Debian, does the daemon serve under its unit's settings there, and
# is nothing lost or left over by upgrades and removals? Nothing manages services in this one: the
# suite starts the daemon itself.
. "$(dirname "$0")/lib.sh"
isolate "$0" "$packages"
make_root
trap 'cleanup; remove_root' EXIT
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
conf=$root/etc/attentiond/attentiond.json
unit=$root/lib/systemd/system/attentiond.service

inside() { # COMMAND...
    timeout 120 chroot "$root" "$@"
}

# As unattended upgrades do: a configuration that was edited stays. Patterns are for the shell inside.
apt() { # ARGUMENTS...
    inside sh -c 'DEBIAN_FRONTEND=noninteractive apt-get -y -qq -o Dpkg::Options::=--force-confdef \
        -o Dpkg::Options::=--force-confold '"$*"
}

query() { # FIELD [PACKAGES...]
    inside dpkg-query -W -f "\${$1}\n" "${@:2}" 2>/dev/null
}

# As systemd would, but for the sandbox.
start_service() { # NAME
    ATTENTIOND_LOG_LEVEL=info "$PYTHON" -I -S "$here/../deb/manager.py" "$root" "$unit" "$scratch/notes" >"$scratch/log" 2>&1 &
    daemon_pid=$!
    wait_for_start
    holds "$1: it says that it is ready" wait_for grep -qx READY=1 "$scratch/notes"
}

service_pid() {
    sed -n 's/^PID=//p' "$scratch/notes"
}

# ---- a fresh machine ---------------------------------------------------------------------------

holds "they install" apt install '/debs/*.deb'
equal "nothing but what is needed comes with them" '' "$(query Package | grep -E 'openblas|python|logrotate')"
equal "they are whole" '' "$(inside dpkg -V attentiond libattention0 libattention-dev)"
equal "there is a user" "attentiond:/usr/sbin/nologin" \
    "$(inside getent passwd attentiond | cut -d : -f 1,7)"
holds "the unit is enabled, the socket is not" test -L "$root/etc/systemd/system/multi-user.target.wants/attentiond.service" -a \
    ! -e "$root/etc/systemd/system/sockets.target.wants/attentiond.socket"
holds "systemd finds no fault in the units" inside systemd-analyze verify --man=no \
    /lib/systemd/system/attentiond.service /lib/systemd/system/attentiond.socket
holds "the configuration is good" inside attentiond --config=/etc/attentiond/attentiond.json --check-config

start_service "after the install"
expect_served "the daemon serves a demo layer"
ask POST /v2/repository/index
expect_json "... all of them" 'len(j) >= 6 and all(m["state"] == "READY" for m in j)'
pid=$(service_pid)
equal "it runs as its user" "$(inside id -u attentiond)" "$(stat -c %u "/proc/$pid")"
holds "it says that it is alive" wait_for grep -qx WATCHDOG=1 "$scratch/notes"
kill -HUP "$daemon_pid"
holds "SIGHUP is taken" wait_for grep -q reloading "$scratch/log"

# ---- a program of somebody else's --------------------------------------------------------------

cp "$here/program.c" "$root/tmp/"
# shellcheck disable=SC2016 # for the shell inside
holds "a C program compiles against the library" inside sh -c \
    'cd /tmp && gcc -Wall -Werror -o program program.c $(pkg-config --cflags --libs libattention) &&
     gcc -o static program.c -Wl,-Bstatic -lattention -Wl,-Bdynamic $(pkg-config --static --libs-only-other libattention) -lm'
equal "... and runs" '1.4142 0.0000' "$(inside /tmp/program 2>&1)"
equal "... with the static one too" '1.4142 0.0000' "$(inside /tmp/static 2>&1)"

# ---- an upgrade while it runs -------------------------------------------------------------------

sed -i 's/"drain-seconds": 0/"drain-seconds": 0,\n    "queue-memory": 70000000/' "$conf"
mkdir -p "$root/var/lib/attentiond/models/mine"
cp "$root/usr/share/attentiond/models/routing_score/config.json" "$root/var/lib/attentiond/models/mine/"
cp "$conf" "$scratch/edited.json"
exe=$(stat -L -c %i "/proc/$pid/exe")
holds "the next version installs over it" apt install '/next/*.deb'
equal "... all of it" installed "$(query db:Status-Status attentiond libattention0 libattention-dev | sort -u)"
holds "... as the next version" test "$(query Version attentiond)" = \
    "$(dpkg-deb -f "$packages"/next/attentiond_[0-9]*.deb Version)"
equal_files "the edited configuration is kept" "$scratch/edited.json" "$conf"
holds "... and the new one beside it" grep -q queue-size "$conf.dpkg-dist"
equal "the daemon runs on" "$exe" "$(stat -L -c %i "/proc/$pid/exe" 2>&1)"
expect_served "... and serves"
kill -HUP "$daemon_pid"
expect_served "... and reloads"
stop_daemon "... and stops"
start_service "after the upgrade"
expect_served "the next one serves"
equal "... from the file that was installed" "$(stat -L -c %i "$root/usr/bin/attentiond")" \
    "$(stat -L -c %i "/proc/$(service_pid)/exe")"
stop_daemon "... and stops"
holds "a downgrade keeps the configuration too" apt install --allow-downgrades '/debs/*.deb'
equal_files "... as it was edited" "$scratch/edited.json" "$conf"

# ---- away with it --------------------------------------------------------------------------------

holds "it is removed" apt remove attentiond
equal_files "... and its configuration stays" "$scratch/edited.json" "$conf"
holds "... but no program and no unit" test ! -e "$root/usr/bin/attentiond" -a ! -e "$unit"
holds "it comes back" apt install '/debs/attentiond_*.deb'
equal_files "... with its configuration" "$scratch/edited.json" "$conf"
start_service "after coming back"
expect_served "... and serves"
stop_daemon "... and stops"
holds "all is purged" apt purge attentiond libattention0 libattention-dev
equal "nothing is left but models that somebody put there, and the user" '/var/lib/attentiond
/var/lib/attentiond/models
/var/lib/attentiond/models/mine
/var/lib/attentiond/models/mine/config.json' \
    "$(cd "$root" && find etc lib usr var -path usr/share/mime -prune -o -path '*attention*' -print | sed 's|^|/|' | grep -v '^/var/lib/dpkg/info/format' | sort)"
holds "the user stays" inside getent passwd attentiond
rm -r "$root/var/lib/attentiond"
holds "they install again" apt install '/debs/*.deb'
start_service "once more"
expect_served "... and serve"
stop_daemon "... and stop"
holds "an empty folder of models goes with a purge" apt purge attentiond
equal "... entirely" '' "$(ls -d "$root"/var/*/attentiond "$root"/etc/attentiond 2>/dev/null)"
equal "no mount is left in it" '' "$(awk -v root="$root" '$2 != root "/proc" && index($2, root "/") == 1 && index($2, root "/dev") != 1 {print $2}' /proc/mounts)"
finish
