#!/usr/bin/env bash
# Installs the packed npm packages (`npm run pack`) into an empty root that has only Node, npm, a shell and their
# libraries, and shows that Lookout works there: see scripts/clean-room/check.mjs. Install scripts do not run, and there
# is no compiler. Dependencies come from npm's registry, or from its cache.
#
#   scripts/clean-room.sh             the strictest room that this machine allows
#   ROOM=home scripts/clean-room.sh   a room of this kind: bwrap, unshare or home
#
# It needs Linux, and no rights: as root or not, what runs in the room has none outside.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'clean room: %s\n' "$*"; }
fail() { printf 'clean room: %s\n' "$*" >&2; exit 1; }

[ "$(uname -s)" = Linux ] || fail 'this script needs Linux'
ls out/packages/lookout-[0-9]*.tgz >/dev/null 2>&1 || npm run --silent pack

# npm may run this script on the Node of node_modules. A user has Node from elsewhere.
outside=$(printf %s "$PATH" | tr : '\n' | grep -v node_modules | paste -sd: -)
node=$(PATH=$outside command -v node) || fail 'there is no Node outside node_modules'
node=$(realpath "$node")
npm=$(realpath "$(PATH=$outside command -v npm)")
npm=$(dirname "$(dirname "$npm")")
cache=$(npm config get cache)

room=$(mktemp -d "${TMPDIR:-/tmp}/lookout-room-XXXXXX")
trap 'chmod -R u+w "$room"; rm -rf "$room"' EXIT

# --- what is in the room ----------------------------------------------------------------------------------------------

put() { # FILE [PLACE]: copies a file into the room, by default to its own path
  mkdir -p "$room$(dirname "${2:-$1}")"
  cp -L "$1" "$room${2:-$1}"
}

mkdir -p "$room"/{bin,usr/bin,tmp,proc,dev,etc,home/user,cache,packages,check}
put "$node" /usr/bin/node
cp -RL "$npm" "$room/usr/npm"
# Platform packages of other platforms cannot be installed here.
for tarball in out/packages/*.tgz; do
  case $tarball in
    */lookout-native-"$(uname -s | tr '[:upper:]' '[:lower:]')-$("$node" -p process.arch)"-*) ;;
    */lookout-native-*) continue ;;
  esac
  cp "$tarball" "$room/packages"
done
cp scripts/clean-room/check.mjs docs/pictures/shapes.png "$room/check"

fill_root() {
  put "$(realpath "$(command -v sh)")" /bin/sh
  put "$(command -v env)" /usr/bin/env
  ldd "$room/usr/bin/node" "$room/bin/sh" "$room/usr/bin/env" | grep -o '/[^ :]*\.so[^ :]*' | sort -u | while read -r library; do
    put "$library"
  done
  # The C library has parts that Node itself does not use.
  local libraries
  libraries=$(dirname "$(find "$room" -name libc.so.6 | head -n 1)")
  for file in "${libraries#"$room"}"/lib{resolv,nss_dns,nss_files,rt,pthread,dl,util}.so.*; do
    if [ -e "$file" ]; then put "$file"; fi
  done
  printf 'user:x:1000:1000::/home/user:/bin/sh\n' >"$room/etc/passwd"
  printf 'user:x:1000:\n' >"$room/etc/group"
  for file in /etc/resolv.conf /etc/hosts; do if [ -e $file ]; then put $file; fi; done
}

# --- the ways into it -------------------------------------------------------------------------------------------------

in_bwrap() {
  bwrap --unshare-all --share-net --die-with-parent --new-session --uid 1000 --gid 1000 \
    --bind "$room" / --proc /proc --dev /dev --tmpfs /tmp --bind "$cache" /cache --chdir /home/user "$@"
}

in_unshare() {
  unshare --user --map-root-user --mount --pid --fork --kill-child sh -c '
    room=$1 cache=$2 && shift 2
    mount -t proc proc "$room/proc" && mount --rbind /dev "$room/dev" && mount --bind "$cache" "$room/cache"
    exec chroot "$room" /usr/bin/env --chdir=/home/user "$@"' sh "$room" "$cache" "$@"
}

in_home() { (cd "$room/home/user" && "$@"); }

# Nothing of this machine's environment but what npm needs to reach the registry.
settings=(LANG=C.UTF-8 "npm_config_registry=$(npm config get registry)")
for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY; do
  if [ -n "${!name:-}" ]; then settings+=("$name=${!name}"); fi
done
if [ -n "${NODE_EXTRA_CA_CERTS:-}" ]; then
  put "$NODE_EXTRA_CA_CERTS" /etc/ca.pem
fi

enter() { # runs a command in the room
  local base=$room cached=$cache
  if [ "$way" != home ]; then base='' cached=/cache; fi
  local inside=("${settings[@]}" "HOME=$base/home/user" "PATH=$base/opt/bin:$base/usr/bin:$base/bin" "npm_config_cache=$cached")
  if [ -e "$room/etc/ca.pem" ]; then inside+=("NODE_EXTRA_CA_CERTS=$base/etc/ca.pem"); fi
  "in_$way" "$(if [ "$way" = home ]; then command -v env; else echo /usr/bin/env; fi)" -i "${inside[@]}" "$@"
}

way=
mkdir -p "$cache"
for way in ${ROOM:-bwrap unshare home}; do
  if [ "$way" = home ]; then
    put "$(realpath "$(command -v sh)")" /bin/sh
    put "$(command -v env)" /usr/bin/env
  else fill_root; fi
  if enter node --version >/dev/null 2>"$room/tmp/why"; then break; fi
  say "not $way: $(head -n 1 "$room/tmp/why")"
  way=
done
case $way in
  '') fail 'this machine allows no room of the kinds asked for' ;;
  home) say 'the room is a folder of its own with a PATH that has only Node, and not a root of its own' ;;
  *) say "the room is a root of its own, entered by $way" ;;
esac

# --- what is shown ----------------------------------------------------------------------------------------------------

say "Node $(enter node --version), npm $(enter node "$([ "$way" = home ] && echo "$room")/usr/npm/bin/npm-cli.js" --version)"
for program in cc gcc g++ c++ clang clang++ make python3 git curl; do
  if enter sh -c "command -v $program" >/dev/null; then fail "$program is in the room"; fi
done
say 'there is no compiler, make, Python, git or curl'

base=$([ "$way" = home ] && echo "$room" || true)
started=$SECONDS
enter sh -c "node $base/usr/npm/bin/npm-cli.js install --global --prefix $base/opt --ignore-scripts --prefer-offline \
  --no-audit --no-fund --loglevel=error $base/packages/*.tgz"
say "installed after $((SECONDS - started)) s: $(du -sm "$room/opt" | cut -f 1) MB"
enter node "$base/check/check.mjs" "$base/check/shapes.png"
say 'all is well'
