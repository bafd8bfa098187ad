#!/bin/sh
# stage-root.sh - complete a folder that the daemon was installed in so that it can be the root of an
# image: stage-root.sh ROOT TRIPLET [OPENBLAS]
#
# Adds every shared library that something in it needs, as the ELF files name them, so that it works for
# another processor too; the licences of whatever comes along; names for the users; the folders that a
# runtime mounts on. Takes out what only serves development.
set -eu
root=$1
triplet=$2
openblas=${3:-no}
top=$(cd "$(dirname "$0")/.." && pwd)
libraries=$root/usr/lib/$triplet
export LC_ALL=C

tool() { # NAME: the one for this processor, if there is one
    command -v "$triplet-$1" || command -v "$1"
}
strip=$(tool strip)
readelf=$(tool readelf)

# The file of a library of Debian by its name.
find_library() { # NAME
    for folder in "/usr/lib/$triplet" "/lib/$triplet"; do
        if [ -e "$folder/$1" ]; then
            echo "$folder/$1"
            return
        fi
    done
    echo "no $1 for $triplet on this machine" >&2
    return 1
}

needed() { # FILE
    "$readelf" -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\].*/\1/p'
}

# The package of a file, whether or not its folders are links.
package_of() { # FILE
    for path in "$1" "${1#/usr}" "/usr$1"; do
        if package=$(dpkg-query -S "$path" 2>/dev/null); then
            echo "${package%%:*}"
            return
        fi
    done
    echo "no package has $1" >&2
    return 1
}

add_licence() { # PACKAGE
    mkdir -p "$root/usr/share/doc/$1"
    cp -L "/usr/share/doc/$1/copyright" "$root/usr/share/doc/$1/"
    # what the text refers to instead of saying it
    grep -o '/usr/share/common-licenses/[A-Za-z0-9.-]*[A-Za-z0-9]' "$root/usr/share/doc/$1/copyright" |
        sort -u | while read -r text; do
        if [ -e "$text" ]; then
            mkdir -p "$root/usr/share/common-licenses"
            cp -L "$text" "$root/$text"
        fi
    done
}

# A library, what it needs in turn, and their licences.
add_library() { # NAME
    [ ! -e "$libraries/$1" ] && [ ! -e "$root/usr/lib/$1" ] || return 0
    file=$(realpath "$(find_library "$1")")
    mkdir -p "$libraries"
    cp "$file" "$libraries/$1"
    chmod 644 "$libraries/$1"
    add_licence "$(package_of "$file")"
    for name in $(needed "$libraries/$1"); do
        add_library "$name"
    done
}

# The interpreter stands where the program says, which no search path changes.
add_interpreter() {
    path=$("$readelf" -l "$root/usr/bin/attentiond" |
        sed -n 's/.*interpreter: \(.*\)\]/\1/p')
    name=${path##*/}
    add_library "$name"
    mkdir -p "$root${path%/*}"
    mv "$libraries/$name" "$root$path"
    chmod 755 "$root$path"
    ln -s "$path" "$libraries/$name"
}

find "$root" ! -type d ! -path "$root/usr/bin/attentiond" ! -path "$root/usr/lib/libattention.so.*" \
    ! -path "$root/usr/share/attentiond/*" -delete
find "$root" -mindepth 1 -type d -empty -delete
"$strip" "$root/usr/bin/attentiond" "$root"/usr/lib/libattention.so.*.*
for file in "$root/usr/bin/attentiond" "$root"/usr/lib/libattention.so.*.*; do
    for name in $(needed "$file"); do
        add_library "$name"
    done
done
[ "$openblas" != yes ] || add_library libopenblas.so.0
add_interpreter

mkdir -p "$root/usr/share/doc/attentiond" "$root/etc" "$root/dev" "$root/proc" "$root/sys" "$root/run" \
    "$root/tmp"
chmod 1777 "$root/tmp"
install -m 644 "$top/LICENSE" "$root/usr/share/doc/attentiond/copyright"
printf '%s\n' 'root:x:0:0:root:/:/usr/sbin/nologin' \
    'attentiond:x:10001:10001:attentiond:/:/usr/sbin/nologin' >"$root/etc/passwd"
printf '%s\n' 'root:x:0:' 'attentiond:x:10001:' >"$root/etc/group"
