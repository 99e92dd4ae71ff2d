#!/bin/sh
# Run the window tests on a virtual screen: tests/window/run.sh FOLDER_FOR_SCREENSHOTS [NAME …]
# NAME@LANGUAGE runs a test in another language of the interface: labels@fr_FR.
set -eu
out=$1
shift
mkdir -p "$out"
# Xvfb chooses a free display number.
Xvfb -displayfd 3 -screen 0 1600x1000x24 3>"$out/display" >"$out/xvfb.log" 2>&1 &
server=$!
trap 'kill $server 2>/dev/null || true' EXIT
sleep 2
DISPLAY=:$(cat "$out/display")
export DISPLAY LIBGL_ALWAYS_SOFTWARE=1 DAMPSIM_SHOTS="$out"
[ $# != 0 ] || set -- creature bridge first_minute contact cloth labels animator timing tutorials
for part in "$@"; do
    code=0
    language=
    case $part in *@*) language=${part#*@} part=${part%@*} ;; esac
    # Without a sample of that name, Blender starts with its default scene.
    file="sample_blends/$part.blend"
    [ -e "$file" ] || file=
    DAMPSIM_LANGUAGE=$language timeout 1200 blender --window-geometry 0 0 1600 1000 --python-exit-code 3 \
        ${file:+"$file"} --python "tests/window/$part.py" >"$out/$part$language.log" 2>&1 || code=$?
    grep -E '^window:' "$out/$part$language.log" || true
    if [ "$code" != 0 ] || ! grep -q "^window: $part passed" "$out/$part$language.log"; then
        tail -30 "$out/$part$language.log"
        exit 1
    fi
done
