import { execFile, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { basename, dirname, join, resolve } from 'node:path'
import { parseEnv } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { parseAllDocuments } from 'yaml'
import { readConfig } from '../src/config/config.ts'
import { SETTINGS } from '../src/config/settings.ts'
import { loadCard, loadLocalCard } from '../src/models/card.ts'
import { serverEngineSchema } from '../src/models/card-schema.ts'
import { CARD } from './support/local-engine.ts'
import { startTestServer, type TestServer } from './support/server.ts'

/** What `deploy/` says of Lookout, checked against Lookout. It needs neither Docker nor a cluster. */

// biome-ignore lint/suspicious/noExplicitAny: what a manifest may hold is checked by its own tools.
type Manifest = any

/** Without what an operator fills in. */
const files = (await readdir('deploy', { recursive: true, withFileTypes: true }))
  .filter((entry) => entry.isFile() && !['.env', 'secrets.env'].includes(entry.name))
  .map(({ name, parentPath }) => join(parentPath, name))

/** All documents of a YAML or JSON file. @throws Error when it cannot be parsed. */
async function parsed(file: string): Promise<Manifest[]> {
  const text = await readFile(file, 'utf8')
  if (file.endsWith('.json')) return [JSON.parse(text)]
  return parseAllDocuments(text, { merge: true }).map((document) => {
    if (document.errors.length > 0) throw document.errors[0]
    return document.toJS()
  })
}

/** All matches of the pattern's first group. */
const found = (text: string, pattern: RegExp) => [...new Set([...text.matchAll(pattern)].map(([, match]) => match!))]
const textOf = (file: string) => readFile(join('deploy', file), 'utf8')
const seconds = (text: string) => Number(/^(\d+)s$/.exec(text)![1])
const flag = (args: readonly string[], name: string) =>
  args.find((given) => given.startsWith(`--${name}=`))?.slice(name.length + 3)

/** Resolves with the exit code and all that the program writes. */
const run = (program: string, args: readonly string[], env: Record<string, string> = {}) =>
  new Promise<{ code: unknown; text: string }>((settle) =>
    execFile(program, args, { env: { PATH: process.env.PATH, ...env } }, (error, stdout, stderr) =>
      settle({ code: error === null ? 0 : error.code, text: stdout + stderr }),
    ),
  )

const [compose] = await parsed('deploy/compose.yaml')
const [cpu] = await parsed('deploy/compose.cpu.yaml')
const manifests: Manifest[] = []
for (const file of files) if (/^deploy\/kubernetes\/.*\.yaml$/.test(file)) manifests.push(...(await parsed(file)))
const manifest = (kind: string, name: string) =>
  manifests.find((one) => one.kind === kind && one.metadata?.name === name) ?? expect.fail(`no ${kind} ${name}`)
const containerOf = (workload: Manifest) => workload.spec.template.spec.containers[0]

const deployment = manifest('Deployment', 'lookout')
const vllmPods = manifest('StatefulSet', 'vllm')
const settings = parseEnv(await textOf('kubernetes/settings.env')) as Record<string, string>
const secrets = parseEnv(await textOf('kubernetes/secrets.env.example')) as Record<string, string>
/** The environment of a Lookout in each deployment, with secrets filled in. */
const environments = {
  compose: Object.fromEntries(
    Object.entries(compose.services['lookout-1'].environment).map(([name, value]) => [
      name,
      String(value).replaceAll(/\$\{\w+:\?\}/g, 'secret'),
    ]),
  ),
  kubernetes: { ...settings, ...secrets, LOOKOUT_API_KEY: 'secret' },
}
const filledIn = parseEnv(await textOf('.env.example')) as Record<string, string>
const model = parseEnv(await textOf('kubernetes/model.env')) as Record<string, string>
/** Where each deployment keeps its card and how it starts vLLM. */
const engines = {
  compose: {
    card: 'deploy/card.json',
    args: (compose.services.vllm.command as string[]).map((given) =>
      given.replace(/\$\{(\w+):\?\}/, (_, name) => filledIn[name]!),
    ),
    servers: 1,
    lookouts: 2,
  },
  kubernetes: {
    card: 'deploy/kubernetes/card.json',
    args: (containerOf(vllmPods).args as string[]).map((given) =>
      given.replace(/\$\((\w+)\)/, (_, name) => model[name]!),
    ),
    servers: vllmPods.spec.replicas as number,
    lookouts: manifest('HorizontalPodAutoscaler', 'lookout').spec.maxReplicas as number,
  },
}

let server: TestServer
beforeAll(async () => {
  server = await startTestServer({ environment: { LOOKOUT_METRICS_PORT: '0' } })
})
afterAll(() => server?.close())

test.each(files.filter((file) => /\.(yaml|json)$/.test(file)))('%s can be parsed', async (file) => {
  expect((await parsed(file)).length).toBeGreaterThan(0)
})

describe('settings', () => {
  test('are ones that exist, wherever they are named', async () => {
    const known = new Set([...SETTINGS.map(({ variable }) => variable), 'LOOKOUT_CONFIG'])
    for (const file of [...files, 'docs/deploy.md']) {
      const named = found(await readFile(file, 'utf8'), /\b(LOOKOUT_[A-Z_]+)/g)
      expect(
        named.filter((setting) => !known.has(setting)),
        file,
      ).toEqual([])
    }
  })

  test.each(Object.entries(environments))(
    'of %s can be used, and are those of servers that share state',
    (_, given) => {
      const config = readConfig(given)
      expect(config.databaseUrl).toMatch(/^postgres:/)
      expect(config.redisUrl).toMatch(/^redis:/)
      expect(config.blobs).toMatch(/^s3:/)
      expect(config.apiKey).not.toBeNull()
      expect(config.metrics).toEqual({ host: '0.0.0.0', port: 9464 })
      const variables: string[] = SETTINGS.map(({ variable }) => variable)
      const others = Object.keys(given).filter((name) => !variables.includes(name))
      expect(others.sort()).toEqual(['AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY', 'VLLM_API_KEY'])
    },
  )

  test('of compose come from variables that .env.example lists', async () => {
    expect(found(await textOf('compose.yaml'), /(?<!\$)\$\{(\w+)/g).sort()).toEqual(Object.keys(filledIn).sort())
  })

  test('of one machine have the names and the defaults that they have without a container', async () => {
    const { environment, ports, volumes, stop_grace_period } = cpu.services.server
    expect(environment).toEqual({ LOOKOUT_API_KEY: null, HF_TOKEN: null })
    const { host, port, drainSeconds } = readConfig({})
    expect(ports).toEqual([`\${LOOKOUT_HOST:-${host}}:\${LOOKOUT_PORT:-${port}}:${port}`])
    const directory = /LOOKOUT_DATA_DIR=(\S+)/.exec(await textOf('Dockerfile'))![1]
    expect(volumes).toEqual([`data:${directory}`])
    expect(cpu.services.caddy.command).toContain(`--to=server:${port}`)
    expect(seconds(stop_grace_period)).toBeGreaterThan(drainSeconds + 10)
  })

  test('do not come from the Services of the namespace', () => {
    for (const workload of [deployment, vllmPods]) expect(workload.spec.template.spec.enableServiceLinks).toBe(false)
  })
})

describe('metrics', () => {
  const board = 'deploy/grafana/lookout.json'
  const expressions = {
    board: async () =>
      (await parsed(board))[0].panels.flatMap(({ targets = [] }: Manifest) =>
        targets.map(({ expr }: Manifest) => expr),
      ),
    alerts: async () =>
      (await parsed('deploy/prometheus/alerts.yaml'))[0].groups.flatMap(({ rules }: Manifest) =>
        rules.map(({ expr }: Manifest) => expr),
      ),
    adapter: async () =>
      (await parsed('deploy/prometheus/adapter-values.yaml'))[0].rules.custom.map(
        ({ seriesQuery }: Manifest) => seriesQuery,
      ),
    autoscaler: async () =>
      manifest('HorizontalPodAutoscaler', 'lookout').spec.metrics.flatMap(({ pods }: Manifest) =>
        pods === undefined ? [] : [pods.metric.name],
      ),
  } satisfies Record<string, () => Promise<string[]>>

  /** The metrics that a server exports, each with its type. */
  async function exported(): Promise<Map<string, string>> {
    const text = await (await fetch(server.service.metricsUrl!)).text()
    return new Map([...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)].map(([, name, type]) => [name!, type!]))
  }

  const ownNames = (texts: readonly string[]) => found(texts.join('\n'), /\b((?:lookout|process)_[a-z_]+)\b/g)

  test.each(Object.entries(expressions))('that the %s names are exported', async (_, read) => {
    const served = await exported()
    const names = ownNames(await read())
    expect(names.length).toBeGreaterThan(0)
    const isServed = (name: string) =>
      served.has(name)
        ? served.get(name) !== 'histogram'
        : served.get(name.replace(/_(bucket|sum|count)$/, '')) === 'histogram'
    expect(names.filter((name) => !isServed(name))).toEqual([])
  })

  test('are all on the board', async () => {
    const shown = new Set(ownNames(await expressions.board()).map((name) => name.replace(/_bucket$/, '')))
    expect([...(await exported()).keys()].filter((name) => !shown.has(name))).toEqual([])
  })

  test('have the labels that expressions go by', async () => {
    const page = await readFile('docs/operations.md', 'utf8')
    const rows = [...page.matchAll(/^\| (`lookout_.+?) \| (.*?) \|/gm)]
    const known = new Set(rows.flatMap(([, , labels]) => labels!.split(', ')))
    const added = ['instance', 'le', 'namespace', 'pod']
    for (const read of [expressions.board, expressions.alerts, expressions.adapter]) {
      const text = (await read()).join('\n')
      const grouped = found(text, /\b(?:by|on) \(([^)]*)\)/g).flatMap((list) => list.split(', '))
      const matched = found(text, /[{,]\s*([a-z_]+)(?:=~|!~|!=|=)"/g)
      const unknown = [...grouped, ...matched].filter((label) => !known.has(label) && !added.includes(label))
      expect(unknown).toEqual([])
    }
  })

  test('cause the alerts that docs/deploy.md explains and alerts.test.yaml tries', async () => {
    const [{ groups }] = await parsed('deploy/prometheus/alerts.yaml')
    const alerts = groups.flatMap(({ rules }: Manifest) => rules.map(({ alert }: Manifest) => alert))
    expect(found(await readFile('docs/deploy.md', 'utf8'), /^\| `((?:Lookout|Vllm)\w+)` \|/gm)).toEqual(alerts)
    expect(found(await textOf('prometheus/alerts.test.yaml'), /alertname: (\w+)/g).sort()).toEqual([...alerts].sort())
  })

  test('of each server are scraped', async () => {
    const [{ scrape_configs }] = await parsed('deploy/prometheus/prometheus.yaml')
    const targets = scrape_configs.flatMap(({ static_configs }: Manifest) => static_configs[0].targets)
    expect(targets).toEqual(['lookout-1:9464', 'lookout-2:9464', 'vllm:8000'])
    expect(Object.keys(compose.services)).toEqual(expect.arrayContaining(['lookout-1', 'lookout-2', 'vllm']))
    for (const workload of [deployment, vllmPods]) {
      const port = Number(workload.spec.template.metadata.annotations['prometheus.io/port'])
      expect(containerOf(workload).ports.map((each: Manifest) => each.containerPort)).toContain(port)
    }
  })
})

describe('ports and probes', () => {
  test('of Lookout are answered without a key', async () => {
    const { startupProbe, livenessProbe, readinessProbe } = containerOf(deployment)
    const paths = [startupProbe, livenessProbe, readinessProbe].map(({ httpGet }) => httpGet.path)
    paths.push(/health_uri (\S+)/.exec(await textOf('Caddyfile'))![1])
    for (const path of paths) expect((await fetch(server.url + path)).status, path).toBe(200)
  })

  test('of the image are those of the port that is set', async () => {
    const dockerfile = await textOf('Dockerfile')
    const [name, ...args] = JSON.parse(/HEALTHCHECK .*\\\n\s+CMD (\[.*\])/.exec(dockerfile)![1]!)
    const [, program] = new RegExp(`ln --symbolic /app/(\\S+) /usr/local/bin/${name} `).exec(dockerfile)!
    const directory = await mkdtemp(join(tmpdir(), 'lookout-image-'))
    try {
      await symlink(resolve(program!), join(directory, name))
      const PATH = [directory, dirname(process.execPath), process.env.PATH].join(':')
      const check = (settings: Record<string, string>) => run(name, args, { PATH, ...settings })
      const { port } = new URL(server.url)
      expect(await check({ LOOKOUT_HOST: '0.0.0.0', LOOKOUT_PORT: port })).toMatchObject({ code: 0 })
      const settings = join(directory, 'settings.yaml')
      await writeFile(settings, `port: ${port}`)
      expect(await check({ LOOKOUT_CONFIG: settings })).toMatchObject({ code: 0 })
      expect(await check({ LOOKOUT_PORT: '1' })).toEqual({
        code: 1,
        text: expect.stringMatching(/no answer from http:\/\/127\.0\.0\.1:1\/readyz: /),
      })
    } finally {
      await rm(directory, { recursive: true })
    }
  })

  test('are those that Lookout listens on', async () => {
    const { port, metrics } = readConfig(environments.kubernetes)
    const ports = containerOf(deployment).ports.map((each: Manifest) => each.containerPort)
    expect(ports).toEqual([port, metrics!.port])
    expect(await textOf('Dockerfile')).toContain(`\nEXPOSE ${port} ${metrics!.port}\n`)
    const upstreams = /^\tto (.+)$/m.exec(await textOf('Caddyfile'))![1]!.split(' ')
    expect(upstreams).toEqual([`lookout-1:${port}`, `lookout-2:${port}`])
  })

  test('have the names that Services, policies, probes and routes use', () => {
    const names = (workload: Manifest) => containerOf(workload).ports.map((port: Manifest) => port.name)
    for (const [name, workload] of Object.entries({ lookout: deployment, vllm: vllmPods })) {
      const { startupProbe, livenessProbe, readinessProbe } = containerOf(workload)
      const probed = [startupProbe, livenessProbe, readinessProbe].map(({ httpGet }) => httpGet.port)
      const targets = manifest('Service', name).spec.ports.map((port: Manifest) => port.targetPort)
      const allowed = manifest('NetworkPolicy', name).spec.ingress.flatMap((rule: Manifest) => rule.ports)
      for (const port of [...probed, ...targets, ...allowed.map((each: Manifest) => each.port)])
        expect(names(workload), name).toContain(port)
      const labels = workload.spec.template.metadata.labels
      for (const kind of ['Service', 'NetworkPolicy', 'PodDisruptionBudget']) {
        const { spec } = manifest(kind, name)
        expect(labels).toMatchObject(spec.podSelector?.matchLabels ?? spec.selector.matchLabels ?? spec.selector)
      }
    }
    const [{ http }] = manifest('Ingress', 'lookout').spec.rules
    const [{ name, port }] = manifest('Service', 'lookout').spec.ports
    expect(http.paths[0].backend.service).toEqual({ name: 'lookout', port: { name } })
    expect(manifest('HTTPRoute', 'lookout').spec.rules[0].backendRefs).toEqual([{ name: 'lookout', port }])
  })
})

describe('limits', () => {
  /** The contract's time for a multilook request. Only OCR and what is in the background may take longer. */
  const LONGEST_S = 300
  const OCR_S = 3600
  /** The input of a batch. */
  const LARGEST_MIB = 200

  test('give requests their time when a server stops', () => {
    const { drainSeconds } = readConfig(environments.compose)
    expect(drainSeconds).toBeGreaterThanOrEqual(LONGEST_S)
    expect(seconds(compose.services['lookout-1'].stop_grace_period)).toBeGreaterThan(drainSeconds + 10)
    const { spec } = deployment.spec.template
    const before = spec.containers[0].lifecycle.preStop.sleep.seconds + readConfig(environments.kubernetes).drainSeconds
    expect(spec.terminationGracePeriodSeconds).toBeGreaterThan(before + 10)
    for (const { args } of Object.values(engines)) {
      const vllm = Number(flag(args, 'shutdown-timeout'))
      expect(vllm).toBeGreaterThanOrEqual(LONGEST_S)
      expect(vllmPods.spec.template.spec.terminationGracePeriodSeconds).toBeGreaterThan(vllm)
      expect(seconds(compose.services.vllm.stop_grace_period)).toBeGreaterThan(vllm)
    }
  })

  test('of proxies are wider than those of Lookout', async () => {
    const { annotations } = manifest('Ingress', 'lookout').metadata
    expect(annotations['nginx.org/proxy-buffering']).toBe('False')
    expect(seconds(annotations['nginx.org/proxy-read-timeout'])).toBeGreaterThan(OCR_S)
    expect(Number.parseInt(annotations['nginx.org/client-max-body-size'], 10)).toBeGreaterThan(LARGEST_MIB)
    expect(Number(/max_size (\d+)MiB/.exec(await textOf('Caddyfile'))![1])).toBeGreaterThan(LARGEST_MIB)
    expect(manifest('HTTPRoute', 'lookout').spec.rules[0].timeouts.request).toBe('0s')
    const [, nginx] = /```nginx\n(.*?)```/s.exec(await readFile('docs/operations.md', 'utf8'))!
    expect(seconds(/proxy_read_timeout (\w+);/.exec(nginx!)![1]!)).toBeGreaterThan(OCR_S)
    expect(Number(/client_max_body_size (\d+)m;/.exec(nginx!)![1])).toBeGreaterThan(LARGEST_MIB)
    // Otherwise LOOKOUT_OLLAMA takes its requests for those of this machine.
    expect(nginx).toContain('proxy_set_header X-Forwarded-For ')
  })
})

describe.each(Object.entries(engines))('the model of %s', (_, { card: file, args, servers, lookouts }) => {
  const engineOf = async () => (await parsed(file))[0].engine

  test('has a card that can be read', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'lookout-deploy-'))
    try {
      const [card] = await parsed(file)
      expect(serverEngineSchema.parse(card.engine)).toMatchObject(card.engine)
      // The rest with an engine of this machine: the folder with the tokenizer is not here.
      const { contextTokens, maxSequences, queueLength } = card.engine
      const { directory: weights, engine: local } = await loadLocalCard(CARD)
      const [model, projector] = [local.model, local.projector!].map((name) => resolve(weights, name))
      const engine = { model, projector, contextTokens, maxSequences, queueLength }
      await writeFile(join(directory, 'card.json'), JSON.stringify({ ...card, engine }))
      const warnings: string[] = []
      const read = await loadCard(join(directory, 'card.json'), (message) => warnings.push(message))
      expect(read).toMatchObject({ family: 'qwen3-vl', dialect: 'qwen3-vl', toolSyntax: 'hermes' })
      expect(warnings).toEqual([])
    } finally {
      await rm(directory, { recursive: true })
    }
  })

  test('is the one that vLLM serves, at the addresses of the card', async () => {
    const engine = await engineOf()
    expect(engine.model).toBe(flag(args, 'served-model-name'))
    expect(engine.contextTokens).toBe(Number(flag(args, 'max-model-len')))
    expect(args).toContain('--enable-scale-out')
    const ordinals = Array.from({ length: servers }, (_, index) => `http://vllm-${index}.vllm:8000`)
    expect(engine.urls).toEqual(file === engines.compose.card ? ['http://vllm:8000'] : ordinals)
    for (const given of Object.values(environments)) expect(given).toHaveProperty(engine.apiKeyEnv)
  })

  test('gets no more completions from all Lookouts than each vLLM server runs and queues', async () => {
    const { maxSequences } = await engineOf()
    const room = Number(flag(args, 'max-num-seqs')) + Number(flag(args, 'max-num-queued-reqs'))
    expect(lookouts * maxSequences).toBeLessThanOrEqual(room)
  })
})

test('both deployments start the same vLLM', () => {
  expect(engines.kubernetes.args).toEqual(engines.compose.args)
  expect(containerOf(vllmPods).image).toBe(compose.services.vllm.image)
  expect(compose.services.vllm.image).toMatch(/:v0\.32\.\d+$/)
})

test('docs/cluster.md starts vLLM alike on a GPU and on a CPU, with flags of the deployments', async () => {
  const page = (await readFile('docs/cluster.md', 'utf8')).replaceAll('\\\n', '')
  const [gpu, cpus] = [/^ +vllm serve .*/m, /^ .* -m vllm\..*/m].map((command) =>
    found(command.exec(page)![0], / (--[a-z-]+)/g).filter((name) => name !== '--model' && name !== '--api-key'),
  )
  expect(cpus).toEqual(gpu)
  const deployed = engines.compose.args.map((given) => given.split('=')[0])
  expect(deployed).toEqual(expect.arrayContaining(gpu!))
})

test('what is downloaded is pinned, and containers install nothing when they start', async () => {
  const services = [compose, cpu].flatMap((file) => Object.values<Manifest>(file.services))
  const pods = [deployment, vllmPods].map(({ spec }) => spec.template.spec)
  const containers = [
    ...services,
    ...pods.flatMap(({ initContainers = [], containers }) => [...initContainers, ...containers]),
  ]
  const others = containers.filter(({ image }) => image !== 'lookout')
  expect(others.filter(({ image }) => !/:v?\d/.test(image)).map(({ image }) => image)).toEqual([])
  const started = containers.map(({ entrypoint, command, args }) => [entrypoint, command, args].flat(2).join(' '))
  expect(started.filter((line) => /\b(pip|uv|npm|apt-get|apk)\b/.test(line))).toEqual([])
  expect(model.MODEL_REVISION).toMatch(/^[0-9a-f]{40}$/)
  expect(filledIn.MODEL_REVISION).toBe(model.MODEL_REVISION)
})

const curls = spawnSync('curl', ['--version']).status === 0
const { tokenizer } = compose.services
const [inPod] = deployment.spec.template.spec.initContainers
const tokenizers = {
  compose: { command: [...tokenizer.entrypoint, ...tokenizer.command], environment: tokenizer.environment },
  kubernetes: { command: [...inPod.command, ...inPod.args], environment: model },
} satisfies Record<string, { command: string[]; environment: Record<string, string> }>

describe.skipIf(!curls).each(Object.entries(tokenizers))(
  `the tokenizer of %s${curls ? '' : ' (skipped: curl is not installed)'}`,
  (_, { command, environment }) => {
    test('is fetched from the commit, whole or not at all', async () => {
      const directory = await mkdtemp(join(tmpdir(), 'lookout-tokenizer-'))
      const asked: IncomingMessage[] = []
      const gone = new Set<string>()
      const hub = createServer((request, response) => {
        asked.push(request)
        response.writeHead(gone.has(basename(request.url!)) ? 404 : 200).end(basename(request.url!))
      }).listen(0, '127.0.0.1')
      try {
        await once(hub, 'listening')
        const { MODEL, FILES } = environment as Record<string, string>
        const folder = join(directory, 'model')
        for (const name of [folder, join(directory, 'card')]) await mkdir(name)
        await writeFile(join(directory, 'card/card.json'), '{}')
        const [shell, flags, script] = command.map((text) =>
          text
            .replaceAll('$$', '$')
            .replace('https://huggingface.co', `http://127.0.0.1:${(hub.address() as AddressInfo).port}`)
            .replaceAll(/(?<= )\/(card|models?)(?=[/ ])/g, (path: string) => directory + path),
        )
        const fetchFiles = (HF_TOKEN: string) =>
          run(shell!, [flags!, script!], { ...model, MODEL: MODEL!, FILES: FILES!, HF_TOKEN })
        await mkdir(join(directory, 'models'))
        expect(await fetchFiles('secret')).toEqual({ code: 0, text: '' })
        expect(asked.map(({ url }) => url)).toEqual(
          FILES!.split(',').map((name) => `/Qwen/Qwen3-VL-4B-Instruct/resolve/${model.MODEL_REVISION}/${name}`),
        )
        expect(asked.map(({ headers }) => headers.authorization)).toEqual(asked.map(() => 'Bearer secret'))
        const written = await readdir(directory, { recursive: true })
        expect(written.map((path) => basename(path))).toEqual(expect.arrayContaining(FILES!.split(',')))
        gone.add('tokenizer.json')
        asked.length = 0
        expect(await fetchFiles('')).toEqual({ code: 22, text: expect.stringContaining('404') })
        expect(asked[0]!.headers.authorization).toBeUndefined()
      } finally {
        hub.closeAllConnections()
        hub.close()
        await rm(directory, { recursive: true })
      }
    })
  },
)

test('both deployments fetch the same files for Lookout, with the same image', () => {
  const { MODEL, FILES } = tokenizer.environment
  expect(model).toMatchObject({ MODEL, FILES })
  expect(compose.services.vllm.command[0]).toBe(MODEL)
  expect(inPod.image).toBe(tokenizer.image)
})

test('the kustomization names files that exist, and leaves out none', async () => {
  const [{ resources, configMapGenerator, secretGenerator }] = await parsed('deploy/kubernetes/kustomization.yaml')
  const named = [...configMapGenerator, ...secretGenerator].flatMap(({ envs = [], files = [] }) => [...envs, ...files])
  const given = named.map((name) => (name === 'secrets.env' ? 'secrets.env.example' : name))
  expect(given.filter((name) => !existsSync(join('deploy/kubernetes', name)))).toEqual([])
  const there = files.filter((file) => /^deploy\/kubernetes\/.*\.yaml$/.test(file)).map((file) => basename(file))
  const others = ['kustomization.yaml', 'http-route.yaml']
  expect([...resources].sort()).toEqual(there.filter((name) => !others.includes(name)).sort())
  const used = containerOf(deployment).envFrom.map((from: Manifest) => (from.configMapRef ?? from.secretRef).name)
  const made = [...configMapGenerator, ...secretGenerator].map(({ name }) => name)
  expect(made).toEqual(expect.arrayContaining([...used, 'lookout-card']))
})

const analyzes = spawnSync('systemd-analyze', ['--version']).status === 0

describe.skipIf(!analyzes)(`the unit${analyzes ? '' : ' (skipped: systemd-analyze is not installed)'}`, () => {
  const analyze = (...args: string[]) => {
    const { status, stdout, stderr } = spawnSync('systemd-analyze', args, { encoding: 'utf8' })
    return { status, text: stdout + stderr }
  }

  test('is valid', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'lookout-unit-'))
    const file = join(directory, 'lookout.service')
    // The program that it starts must exist, at a path without spaces.
    const program = join(directory, 'lookout')
    await symlink(resolve('.'), program)
    await writeFile(file, (await textOf('lookout.service')).replaceAll('/opt/lookout', program))
    expect(analyze('verify', file)).toEqual({ status: 0, text: '' })
    await rm(directory, { recursive: true })
  })

  test('has an exposure below 3', () => {
    const { text } = analyze('security', '--offline=true', 'deploy/lookout.service')
    expect(Number(/Overall exposure level for lookout\.service: ([\d.]+)/.exec(text)![1])).toBeLessThan(3)
  })
})

test('the unit gives a server the time to end that it gives to requests', async () => {
  const [, seconds] = /^TimeoutStopSec=(\d+)$/m.exec(await textOf('lookout.service'))!
  expect(Number(seconds)).toBeGreaterThan(readConfig({}).drainSeconds)
})

test('the unit starts a file that the package has, and says for a clone which one', async () => {
  const { bin } = JSON.parse(await readFile('package.json', 'utf8'))
  const start = '/opt/lookout/node_modules/.bin/node /opt/lookout/'
  expect(await textOf('lookout.service')).toContain(`ExecStart=${start}node_modules/lookout/${bin.lookout} serve`)
  expect(await readFile('docs/deploy.md', 'utf8')).toContain(`ExecStart=${start}${bin.lookout} serve`)
})
