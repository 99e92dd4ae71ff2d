#!/bin/sh
# Exit codes and saved files of the command line in a real Blender. Usage: tests/cli.sh FOLDER
# tests/addon/test_command_sequences.py runs such sequences earlier, in the bpy module.
set -u
out=$1
mkdir -p "$out"

sample=sample_blends/jelly.blend

expect() {
    expected=$1
    shift
    blender --background "$sample" --command dampsim "$@" >"$out/log" 2>&1
    code=$?
    if [ "$code" != "$expected" ]; then
        cat "$out/log"
        echo "cli: expected exit code $expected, got $code: dampsim $*"
        exit 1
    fi
    echo "cli: $code: dampsim $*"
}

expect 0 bake --object Suzanne --frames 1:12 --set settle=12 --cache "$out/cache" --output "$out/baked.blend"
grep -q 'dampsim: Suzanne: Simulating 12/12' "$out/log" || { cat "$out/log"; exit 1; }
test -s "$out/baked.blend"
expect 0 bake --frames 1:15 --set settle=12 --cache "$out/cache" --output "$out/baked.blend"
grep -q 'Checking 12/15' "$out/log" || { cat "$out/log"; exit 1; }
expect 0 bake --frames 1:15 --set settle=12 --from 10 --target shape_keys --cache "$out/cache" --report "$out/report.json" --output "$out/baked.blend"
grep -q 'Simulating 15/15' "$out/log" || { cat "$out/log"; exit 1; }
grep -q '"target": "SHAPE_KEYS"' "$out/report.json" || { cat "$out/report.json"; exit 1; }
sample=$out/baked.blend
expect 0 info --report "$out/report.json"
expect 0 export --frames 1:12 --output "$out/jelly"
for name in jelly.glb jelly.fbx; do test -s "$out/$name" || exit 1; done
expect 0 clear --output "$out/cleared.blend"
sample=$out/cleared.blend
expect 2 export --output "$out/nothing"
sample=sample_blends/jelly.blend
expect 1 bake --cache /proc/self/nowhere --output "$out/failed.blend"
grep -q 'dampsim: Suzanne: the cache folder' "$out/log" || { cat "$out/log"; exit 1; }
test ! -e "$out/failed.blend"
expect 2 bake --object Nobody
expect 2 bake --set wobble=3
expect 0 sweep --set settle=8,16 --frames 1:8 --pictures 1 --output "$out/sweep"
for name in sweep.csv index.html contact_sheet.png curve_01.svg curve_02.svg; do test -s "$out/sweep/$name" || exit 1; done
expect 2 sweep --output "$out/nothing"
expect 1 sweep --set settle=8 --output /proc/self/nowhere
expect 2 bake --skip-done --output "$out/baked.blend"
unit="--skip-done --report $out/unit.json --output $out/unit.blend --cache $out/unit --frames 1:6 --pictures 2"
expect 0 bake $unit
for name in unit.blend unit.png; do test -s "$out/$name" || exit 1; done
expect 0 bake $unit
grep -q 'already done' "$out/log" || { cat "$out/log"; exit 1; }
touch "$out/cancel"
expect 1 bake --cancel "$out/cancel" --output "$out/cancelled.blend"
test ! -e "$out/cancelled.blend"
rm -rf "$out/shots" "$out/farm"
mkdir -p "$out/shots"
cp sample_blends/jelly.blend "$out/shots/sh010.blend"
echo "not a Blender file" >"$out/shots/sh020.blend"
expect 1 farm "$out/shots" --set settle=8,16 --frames 1:6 --target point_cache --output "$out/farm"
grep -q '2 baked, 2 failed' "$out/log" || { cat "$out/log"; exit 1; }
rm "$out/shots/sh020.blend"
expect 0 farm "$out/shots" --set settle=8,16 --frames 1:6 --target point_cache --output "$out/farm"
grep -q 'already done' "$out/log" || { cat "$out/log"; exit 1; }
expect 0 gather "$out/farm"
expect 2 farm "$out/shots" --set wobble=1 --output "$out/nothing"
expect 1 farm "$out/nowhere.toml" --output "$out/nothing"
test ! -e "$out/nothing"
expect 0 compare --scene thrown --damping undamped --damping direct --no-step --output "$out/compare"
for name in compare.csv energy.svg d1.svg d2.svg; do test -s "$out/compare/$name" || exit 1; done
expect 2 compare --damping magic --output "$out/nothing"
