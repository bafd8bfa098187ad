#!/usr/bin/env bash
# Are the packages what Debian wants them to be, and is the unit well shut in?
. "$(dirname "$0")/lib.sh"
top=$(cd "$here/../.." && pwd)
# What systemd-analyze gives the unit at most, times ten; 100 is no sandbox at all.
most_exposed=15

file_of() { # PACKAGE
    echo "$packages/$1"_[0-9]*.deb
}

field() { # PACKAGE FIELD
    dpkg-deb -f "$(file_of "$1")" "$2"
}

holds "lintian finds no error and no warning" timeout 200 lintian --allow-root --fail-on error,warning \
    "$packages"/attentiond_*.changes
equal "the version is that of the Makefile" "$(sed -n 's/^VERSION := //p' "$top/Makefile")" \
    "$(field attentiond Version | sed 's/-[^-]*$//')"
equal "all have one" 1 "$(for name in attentiond libattention0 libattention-dev; do field $name Version; done | sort -u | wc -l)"

# What is in them, and what they need.
for name in attentiond libattention0 libattention-dev; do
    mkdir "$scratch/$name"
    dpkg-deb -x "$(file_of $name)" "$scratch/$name"
done
daemon=$scratch/attentiond/usr/bin/attentiond
libdir=/usr/lib/$(dpkg-architecture -q DEB_HOST_MULTIARCH)
library=$scratch/libattention0$libdir/libattention.so.0
holds "the library lies where the architecture's do" test -f "$library"
holds "... its development files too" test -f "$scratch/libattention-dev$libdir/libattention.a" -a \
    -L "$scratch/libattention-dev$libdir/libattention.so" -a \
    -f "$scratch/libattention-dev$libdir/pkgconfig/libattention.pc"
readelf -dW "$daemon" >"$scratch/dynamic"
contains "the daemon needs the library and binds at once" 'libattention.so.0|BIND_NOW|PIE' "$scratch/dynamic"
equal "... and looks for it where the system does" '' "$(grep -E 'RPATH|RUNPATH' "$scratch/dynamic")"
equal "the daemon has no other library than those it depends on" '' "$(grep -o 'lib\(openblas\|systemd\)[^]]*' "$scratch/dynamic")"
equal "OpenBLAS is suggested" 'libopenblas0-pthread | libopenblas0' "$(field libattention0 Suggests)"
equal "nothing is executable but the daemon" "$daemon" "$(find "$scratch"/*/ -type f -perm /111)"
equal "one configuration is kept over upgrades" /etc/attentiond/attentiond.json \
    "$(dpkg-deb --ctrl-tarfile "$(file_of attentiond)" | tar -xO ./conffiles)"

# The manual page names every option of the daemon, and no other.
LD_LIBRARY_PATH=${library%/*} "$daemon" --help | grep -oE '^  --[a-z-]+' | tr -d ' ' | sort >"$scratch/options"
zcat "$scratch/attentiond/usr/share/man/man8/attentiond.8.gz" >"$scratch/page"
sed -n '/^\.SH OPTIONS/,/^\.SH SIGNALS/s/^\.B \(\\-\\-[^ ]*\).*/\1/p' "$scratch/page" | sed 's/[^a-z-]//g' | sort >"$scratch/page.options"
holds "the manual page has the daemon's options" diff "$scratch/options" "$scratch/page.options"

# The unit. What it names is on no machine that has not installed it: verify gets it in a root.
unit=$scratch/attentiond/lib/systemd/system/attentiond.service
exposure=$(systemd-analyze security --offline=true --no-pager "$unit" 2>&1 | sed -n 's/.*exposure level for [^ ]*: \([0-9.]*\).*/\1/p')
echo "packages: exposure of the unit by systemd-analyze: $exposure of 10"
holds "the unit is shut in" systemd-analyze security --offline=true --threshold=$most_exposed --no-pager "$unit"
seconds() { # OPTION
    sed -n "s/.*\"$1\": \([0-9]*\).*/\1/p" "$scratch/attentiond/etc/attentiond/attentiond.json"
}
holds "a stop has time for the configuration's patience" test \
    "$(sed -n 's/^TimeoutStopSec=//p' "$unit")" -gt $(($(seconds drain-seconds) + $(seconds exit-timeout-secs)))
finish
