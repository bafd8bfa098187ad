#!/usr/bin/env bash
# Are the daemon and the library built with what the compiler has against faults of memory? Read off the
# files themselves, so that a flag that gets lost on its way shows.
. "$(dirname "$0")/lib.sh"
built=$(dirname "$DAEMON")
mode=$(basename "$built")
library=$built/libattention.so

segments() { # FILE
    readelf -lW "$1" 2>/dev/null
}

is_position_independent() { # FILE
    readelf -hW "$1" | grep -q 'Type: *DYN'
}

# The tables that calls go through are read-only once the program runs.
is_bound_at_start() { # FILE
    segments "$1" | grep -q ' GNU_RELRO ' && readelf -dW "$1" | grep -q 'FLAGS_1.*\bNOW\b'
}

has_plain_stack() { # FILE
    segments "$1" | grep -q ' GNU_STACK .* RW ' && ! segments "$1" | grep -q ' RWE '
}

# Code lies on pages of its own: nothing that is only read, headers among it, can be run.
has_code_apart() { # FILE
    [ "$(segments "$1" | grep -c '^ *LOAD .* R E ')" -eq 1 ] && segments "$1" | grep -m 1 '^ *LOAD ' | grep -q ' R  *0x'
}

has_no_text_relocations() { # FILE
    ! readelf -dW "$1" | grep -q TEXTREL
}

calls() { # FILE NAME
    nm -D --undefined-only "$1" | grep -q " $2"
}

is_marked() { # OBJECT
    readelf -nW "$1" | grep -q "$marks"
}

for file in "$DAEMON" "$library"; do
    name=${file##*/}
    holds "$name can lie anywhere in memory" is_position_independent "$file"
    holds "$name: calls are bound at the start and read-only from then on" is_bound_at_start "$file"
    holds "$name: the stack cannot be run, nor anything that can be written" has_plain_stack "$file"
    holds "$name: code has pages of its own" has_code_apart "$file"
    holds "$name: code is not written to by the loader" has_no_text_relocations "$file"
    holds "$name: frames are guarded" calls "$file" __stack_chk_fail
done
# Of the library's calls none writes to a buffer whose size is not known when it is compiled.
[ "$mode" != release ] || holds "attentiond: sizes of buffers are checked" calls "$DAEMON" '__[a-z]*_chk@'

# What leaves no mark in them the compiler was asked for, if it knows of it. Objects say where indirect
# jumps land; a program says so only where those of the C library, which it starts with, do.
asked=$(cat "$built/flags")
for flag in -fstack-clash-protection -fcf-protection=full -mbranch-protection=standard; do
    if "${asked%% *}" -Werror "$flag" -x c -S -o /dev/null /dev/null 2>/dev/null; then
        equal "the build asked for $flag" "$flag" "$(grep -o -m 1 -e "$flag" <<<"$asked")"
    fi
done
case $(uname -m) in
x86_64) marks='IBT.*SHSTK' ;;
aarch64) marks='BTI.*PAC' ;;
esac
for object in server/main.o lib/layer.o lib/kernels/ref.o; do
    holds "$object: jumps and returns are marked" is_marked "$built/$object"
done
finish
