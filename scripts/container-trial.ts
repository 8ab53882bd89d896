/**
 * `node scripts/container-trial.ts FOLDER`: runs the steps of deploy/Dockerfile without a Docker daemon, in root file
 * systems that debootstrap makes below FOLDER, and then the image: read-only, as its user, without capabilities. Asks it
 * about a picture, and says what it weighs. Linux, as root, with debootstrap; a trial of the steps, not of Docker.
 *
 * The base images are imitated: Debian's by debootstrap with apt's settings of this machine, and Node's by the same with
 * the Node and the npm that run this script. The stage of the default build argument is made; labels and the like are read
 * over.
 */
import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { cp, mkdir, readFile, rm, stat } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'

const PROJECT = dirname(dirname(fileURLToPath(import.meta.url)))
const RELEASE = 'bookworm'
/** Not the default: HEALTHCHECK has to find it. */
const PORT = '18080'
const URL_OF_SERVER = `http://127.0.0.1:${PORT}`
const START_MS = 120_000

interface Stage {
  readonly root: string
  readonly environment: Record<string, string>
  folder: string
  user: string
  health: readonly string[]
  entry: readonly string[]
}

const [folder] = process.argv.slice(2)
if (folder === undefined || process.getuid?.() !== 0) throw new Error('Usage, as root: container-trial.ts FOLDER')
const place = resolve(folder)
const say = (line: string) => console.log(`container trial: ${line}`)

const image = await build()
await weigh(image)
await serve(image)

/** Runs the instructions of the stages that the last one is made of. */
async function build(): Promise<Stage> {
  const instructions = await readDockerfile()
  const global: Record<string, string> = {}
  const stages = new Map<string, Stage>()
  const wanted = wantedStages(instructions)
  let stage: Stage | null = null
  for (const [keyword, text] of instructions) {
    const variables = { ...global, ...stage?.environment }
    const value = keyword === 'RUN' ? text : substitute(text, variables)
    if (keyword === 'FROM') {
      const [, base, name = 'image'] = /^(\S+)(?: AS (\S+))?$/.exec(substitute(text, global))!
      stage = wanted.has(name) ? await begin(name, base!, stages.get(base!)) : null
      if (stage !== null) stages.set(name, stage)
    } else if (keyword === 'ARG') {
      const [name, standard] = value.split('=')
      const given = standard ?? global[name!] ?? ''
      if (stages.size === 0 && stage === null) global[name!] = given
      else if (stage !== null) stage.environment[name!] = given
    } else if (stage !== null) await follow(stage, keyword, value, stages)
  }
  return stages.get('image')!
}

/** The last stage, and those that it is made from or copies from. */
function wantedStages(instructions: readonly (readonly [string, string])[]): Set<string> {
  const global = Object.fromEntries(
    instructions.flatMap(([keyword, text]) => (keyword === 'ARG' && text.includes('=') ? [text.split('=')] : [])),
  ) as Record<string, string>
  const last = instructions.findLastIndex(([keyword]) => keyword === 'FROM')
  const copied = instructions.slice(last).flatMap(([, text]) => /^--from=(\S+)/.exec(text)?.[1] ?? [])
  return new Set(['image', substitute(instructions[last]![1], global), ...copied])
}

async function readDockerfile(): Promise<readonly (readonly [string, string])[]> {
  const text = await readFile(join(PROJECT, 'deploy/Dockerfile'), 'utf8')
  const lines = text
    .replace(/^#.*\n/gm, '')
    .replace(/\\\n/g, ' ')
    .split('\n')
  return lines.flatMap((line) => {
    const [, keyword, rest] = /^(\w+)\s+(.*)$/.exec(line) ?? []
    return keyword === undefined ? [] : [[keyword, rest!.replace(/\s+/g, ' ')] as const]
  })
}

function substitute(text: string, variables: Readonly<Record<string, string>>): string {
  return text.replace(/\$\{(\w+)\}/g, (all, name) => variables[name] ?? all)
}

async function begin(name: string, base: string, from: Stage | undefined): Promise<Stage> {
  const root = join(place, name)
  say(`stage ${name} from ${base}`)
  if (from !== undefined) {
    await rm(root, { recursive: true, force: true })
    execFileSync('cp', ['--archive', from.root, root])
    return { ...from, root, environment: { ...from.environment } }
  }
  await rm(root, { recursive: true, force: true })
  await imitate(base, root)
  return {
    root,
    environment: { PATH: '/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin' },
    folder: '/',
    user: '',
    health: [],
    entry: [],
  }
}

/** Makes what a base image has, or the part of it that the steps use. */
async function imitate(base: string, root: string): Promise<void> {
  const isNode = base.startsWith('node:24-bookworm')
  if (!isNode && !base.startsWith('debian:bookworm')) throw new Error(`${base} cannot be imitated`)
  const minimal = join(place, 'debootstrap')
  if (!(await exists(join(minimal, 'etc/debian_version')))) {
    const sources = execFileSync('apt-get', ['indextargets', '--format', '$(REPO_URI) $(RELEASE)'], {
      encoding: 'utf8',
    })
    const mirror = sources
      .split('\n')
      .find((line) => line.endsWith(` ${RELEASE}`))
      ?.split(' ')[0]
    execFileSync('debootstrap', ['--variant=minbase', RELEASE, minimal, ...(mirror ? [mirror] : [])], {
      stdio: 'ignore',
    })
    // Debian's slim images leave out documentation, but for the licences.
    const junk = [
      'rm -rf var/cache/apt/archives var/lib/apt/lists',
      'find usr/share/doc -type f ! -name copyright -delete',
    ]
    execFileSync('sh', ['-ec', junk.join('; ')], { cwd: minimal })
    await mkdir(join(minimal, 'var/cache/apt/archives/partial'), { recursive: true })
  }
  execFileSync('cp', ['--archive', minimal, root])
  await cp('/etc/resolv.conf', join(root, 'etc/resolv.conf'), { dereference: true })
  if (!isNode) return
  execFileSync('cp', [process.execPath, join(root, 'usr/local/bin/node')])
  const npm = dirname(
    dirname(
      execFileSync('readlink', ['-f', execFileSync('which', ['npm'], { encoding: 'utf8' }).trim()], {
        encoding: 'utf8',
      }).trim(),
    ),
  )
  await mkdir(join(root, 'usr/local/lib/node_modules'), { recursive: true })
  execFileSync('cp', ['--archive', npm, join(root, 'usr/local/lib/node_modules/npm')])
  execFileSync('ln', ['-s', '../lib/node_modules/npm/bin/npm-cli.js', join(root, 'usr/local/bin/npm')])
}

async function follow(stage: Stage, keyword: string, value: string, stages: ReadonlyMap<string, Stage>): Promise<void> {
  // A trial keeps nothing for another one.
  if (keyword === 'RUN') await runStep(stage, value.replace(/^(--mount=\S+\s+)+/, ''))
  else if (keyword === 'COPY') await copyStep(stage, value, stages)
  else if (keyword === 'USER') stage.user = value
  else if (keyword === 'WORKDIR') {
    stage.folder = value
    await mkdir(join(stage.root, value), { recursive: true })
  } else if (keyword === 'ENV') {
    for (const [, name, text] of value.matchAll(/(\w+)=(\S+)/g)) stage.environment[name!] = text!
  } else if (keyword === 'HEALTHCHECK') stage.health = JSON.parse(/CMD (\[.*\])/.exec(value)![1]!)
  else if (keyword === 'ENTRYPOINT') stage.entry = JSON.parse(value)
  else if (keyword === 'CMD') stage.entry = [...stage.entry, ...JSON.parse(value)]
  else if (!['LABEL', 'EXPOSE', 'VOLUME'].includes(keyword)) throw new Error(`${keyword} is not known`)
}

async function runStep({ root, environment, folder }: Stage, command: string): Promise<void> {
  say(`RUN ${command.length > 90 ? `${command.slice(0, 90)}…` : command}`)
  // A proxy of this machine may have a certificate that only this machine trusts. It is not left in the image.
  const script = `mount -t proc proc "$ROOT/proc" && mount --rbind /dev "$ROOT/dev" && mount -t tmpfs tmpfs "$ROOT/run" &&
    cp /etc/ssl/certs/ca-certificates.crt "$ROOT/run/trust.pem" && exec chroot "$ROOT" /usr/bin/env -i "$@"`
  const settings = Object.entries(environment).map(([name, value]) => `${name}=${value}`)
  const step = [
    'HOME=/root',
    'NODE_EXTRA_CA_CERTS=/run/trust.pem',
    ...settings,
    '/bin/sh',
    '-ec',
    `cd ${folder}; ${command}`,
  ]
  const { status } = spawnSync('unshare', ['--mount', 'sh', '-ec', script, 'sh', ...step], {
    env: { ...process.env, ROOT: root },
    stdio: ['ignore', 'inherit', 'inherit'],
  })
  if (status !== 0) throw new Error(`The step ends with code ${status}.`)
}

async function copyStep({ root, folder }: Stage, value: string, stages: ReadonlyMap<string, Stage>): Promise<void> {
  const words = value.split(' ')
  const from = words[0]!.startsWith('--from=') ? stages.get(words.shift()!.slice('--from='.length))! : null
  const target = resolve(folder, words.pop()!)
  say(`COPY ${words.join(' ')} to ${target}`)
  if (from === null) {
    const files = (await contextFiles()).filter((file) => words.includes('.') || words.includes(file))
    const list = `${files.join('\0')}\0`
    execFileSync(
      'sh',
      ['-c', `tar -C "$1" --null -T - -cf - | tar -C "$2" --no-same-owner -xf -`, 'sh', PROJECT, root + target],
      { input: list },
    )
    return
  }
  for (const word of words) {
    const isFolder = words.length > 1 || value.endsWith('/')
    await mkdir(dirname(root + target), { recursive: true })
    execFileSync('cp', [
      '--archive',
      '--no-target-directory',
      from.root + word,
      root + (isFolder ? join(target, word.split('/').at(-1)!) : target),
    ])
  }
}

/** What git knows of the project, as deploy/Dockerfile.dockerignore narrows it down. */
async function contextFiles(): Promise<readonly string[]> {
  const ignore = (await readFile(join(PROJECT, 'deploy/Dockerfile.dockerignore'), 'utf8')).split('\n')
  const kept = ignore.filter((line) => line.startsWith('!')).map((line) => line.slice(1))
  const files = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], {
    cwd: PROJECT,
    encoding: 'utf8',
  })
  return files
    .split('\0')
    .filter((file) => kept.some((path) => file === path || file.startsWith(`${path}/`)) && !file.endsWith('.test.ts'))
}

async function weigh({ root }: Stage): Promise<void> {
  const size = (path: string) =>
    Number(execFileSync('du', ['--summarize', '--bytes', join(root, path)], { encoding: 'utf8' }).split('\t')[0]) / 1e6
  const models = size('app/models')
  say(`the image has ${size('').toFixed(0)} MB, ${models.toFixed(0)} MB of them models`)
  for (const path of ['usr/local/bin/node', 'app/node_modules', 'app/cache', 'app/dist', 'app/src'])
    say(`  ${path}: ${size(path).toFixed(0)} MB`)
  const { components } = JSON.parse(await readFile(join(root, 'app/sbom.cdx.json'), 'utf8'))
  say(`its SBOM names ${components.length} packages`)
}

/** Runs the image as its user, and asks it. */
async function serve({ root, environment, folder, user, health, entry }: Stage): Promise<void> {
  const data = join(place, 'data')
  await rm(data, { recursive: true, force: true })
  await mkdir(data, { recursive: true })
  const [uid, gid] = user.split(':')
  execFileSync('chown', [user, data])
  const settings = { ...environment, LOOKOUT_PORT: PORT }
  const inside = [
    ...[
      'setpriv',
      '--reuid',
      uid!,
      '--regid',
      gid!,
      '--clear-groups',
      '--no-new-privs',
      '--bounding-set=-all',
      '--inh-caps=-all',
    ],
    ...['env', '-i', `--chdir=${folder}`, ...Object.entries(settings).map(([name, value]) => `${name}=${value}`)],
  ]
  const script = `mount --bind "$ROOT" "$ROOT" && mount -o remount,ro,bind "$ROOT"
    mount -t proc proc "$ROOT/proc" && mount --rbind /dev "$ROOT/dev" && mount -t tmpfs tmpfs "$ROOT/tmp"
    mount --bind "$DATA" "$ROOT/var/lib/lookout" && exec chroot "$ROOT" "$@"`
  const start = (command: readonly string[]) =>
    spawn('unshare', ['--mount', '--pid', '--fork', '--kill-child', 'sh', '-ec', script, 'sh', ...inside, ...command], {
      env: { ...process.env, ROOT: root, DATA: data },
      stdio: ['ignore', 'inherit', 'inherit'],
    })
  const codeOf = async (command: readonly string[]) => (await once(start(command), 'exit'))[0] as number

  const attempts =
    'for path in /app /app/cache /etc /usr; do if touch $path/x 2>/dev/null; then exit 1; fi; done; touch /tmp/x /var/lib/lookout/x'
  if ((await codeOf(['sh', '-c', attempts])) !== 0)
    throw new Error('The root file system is not read-only, or the data not writable.')
  await codeOf(['sh', '-c', 'id; grep -E "^(Cap|NoNewPrivs)" /proc/self/status; ! command -v g++ npm'])
  const server = start(entry)
  try {
    const deadline = Date.now() + START_MS
    while ((await codeOf(health)) !== 0) {
      if (server.exitCode !== null || Date.now() > deadline) throw new Error('The server does not become ready.')
      await delay(500)
    }
    say('HEALTHCHECK says that it is healthy')
    await ask((await readFile(join(data, 'first-key'), 'utf8')).trim())
    if ((await codeOf(['lookout', 'keys', 'list'])) !== 0) throw new Error('Commands do not run beside the server.')
  } finally {
    server.kill()
  }
}

async function ask(key: string): Promise<void> {
  const url = `data:image/png;base64,${await readFile(join(PROJECT, 'docs/pictures/shapes.png'), 'base64')}`
  const post = async (path: string, body: unknown) => {
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
    const response = await fetch(URL_OF_SERVER + path, { method: 'POST', headers, body: JSON.stringify(body) })
    const text = await response.text()
    say(`POST ${path}: ${response.status} ${text.slice(0, 300)}`)
    if (!response.ok) throw new Error('The server refuses.')
    return JSON.parse(text)
  }
  const image = { type: 'image_url', image_url: { url } }
  await post('/v1/chat/completions', {
    model: 'service-mk1.5',
    messages: [{ role: 'user', content: [image, { type: 'text', text: 'How many circles are there?' }] }],
  })
  const { detections } = await post('/v1/detect', { media: { type: 'image', image_url: url }, categories: ['circle'] })
  if (detections.length === 0) throw new Error('It finds nothing.')
  const page = await fetch(`${URL_OF_SERVER}/studio/`)
  say(`GET /studio/: ${page.status}`)
}

async function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  )
}
