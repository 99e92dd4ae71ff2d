#!/bin/sh
# Opens the real window on a virtual screen and drives it: tests/window/run.sh FOLDER_FOR_SCREENSHOTS
set -eu
out=$1
mkdir -p "$out"
Xvfb :77 -screen 0 1600x1000x24 >"$out/xvfb.log" 2>&1 &
server=$!
trap 'kill $server 2>/dev/null || true' EXIT
export DISPLAY=:77 LIBGL_ALWAYS_SOFTWARE=1 DAMPSIM_SHOTS="$out"
sleep 2
timeout 420 blender --window-geometry 0 0 1600 1000 --python-exit-code 3 \
    sample_blends/creature.blend --python tests/window/drive.py >"$out/blender.log" 2>&1 || code=$?
grep -E '^window:' "$out/blender.log" || true
if [ "${code:-0}" != 0 ] || ! grep -q '^window: passed' "$out/blender.log"; then
    tail -30 "$out/blender.log"
    exit 1
fi
