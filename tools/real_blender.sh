#!/usr/bin/env bash
# The real Blender of Debian's unstable suite, in a folder of its own (root rights are needed for chroot).
#   tools/real_blender.sh setup           make the folder; does nothing if it is there
#   tools/real_blender.sh sync            copy the checkout to /work inside
#   tools/real_blender.sh run COMMAND …   run a command inside, in /work
#   tools/real_blender.sh down            unmount what is mounted in it, before the folder is removed
# The folder is .tools/blender, or what DAMPSIM_BLENDER names.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
folder=${DAMPSIM_BLENDER:-$root/.tools/blender}

mounted() {
    [ -d "$folder/proc" ] || { echo "There is no Blender in $folder: tools/real_blender.sh setup"; exit 1; }
    mountpoint -q "$folder/proc" || mount -t proc proc "$folder/proc"
}

setup() {
    if [ ! -e "$folder/ready" ]; then
        command -v debootstrap >/dev/null || { apt-get update -qq && apt-get install -y -qq debootstrap >/dev/null; }
        mirror=$(apt-get indextargets --format '$(SITE)' | grep -m1 .)
        mkdir -p "$folder"
        debootstrap --variant=minbase sid "$folder" "$mirror" >"$folder.log" 2>&1 || { tail -20 "$folder.log"; exit 1; }
        mounted
        # A mirror's copy may be older than the validity that its index claims. Blender's own builds bring a numpy with
        # OpenBLAS, the suite's takes what there is.
        chroot "$folder" sh -ec '
            export DEBIAN_FRONTEND=noninteractive
            apt-get -o Acquire::Check-Valid-Until=false update -qq
            apt-get install -y -qq --no-install-recommends blender xvfb xdotool imagemagick x11-utils \
                python3-numpy libopenblas0-pthread python3-cattr python3-requests python3-pytest libgl1-mesa-dri
        ' >>"$folder.log" 2>&1 || { tail -20 "$folder.log"; exit 1; }
        touch "$folder/ready"
    fi
    mounted
    chroot "$folder" blender --version | head -n 1
}

sync() {
    rm -rf "$folder/work"
    mkdir -p "$folder/work"
    (cd "$root" && git ls-files -coz --exclude-standard | while IFS= read -r -d '' name; do
        if [ -e "$name" ]; then printf '%s\0' "$name"; fi
    done | tar -c --null -T -) | tar -x -C "$folder/work"
    if [ -d "$root/build" ]; then cp -r "$root/build" "$folder/work/"; fi
}

run() {
    mounted
    # Blender lists its own repositories only where their folder is there.
    mkdir -p "$folder/root/.config/blender/5.2/extensions/user_default"
    chroot "$folder" /usr/bin/env -i HOME=/root PATH=/usr/local/bin:/usr/bin:/bin LANG=C.UTF-8 OPENBLAS_NUM_THREADS=1 \
        DAMPSIM_INSTALLED="${DAMPSIM_INSTALLED:-}" sh -c 'cd /work && exec "$@"' sh "$@"
}

down() {
    if mountpoint -q "$folder/proc"; then umount "$folder/proc"; fi
}

case ${1:-} in
    setup | sync | down) "$1" ;;
    run) shift; run "$@" ;;
    *) sed -n '2,7s/^# //p' "$0"; exit 2 ;;
esac
