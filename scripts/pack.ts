/**
 * `npm run pack [FOLDER]`: writes what is published on npm, each package as a tarball in `out/packages` or the folder:
 * Lookout, the shipped model, and the platform packages that are there. Nothing is published.
 *
 * Lookout's package has the files that package.json lists. Its manifest differs from the repository's: it also names the
 * other packages, so that npm installs them with it, and it has no scripts. Nothing is compiled at an install, and it
 * makes no difference whether npm runs install scripts.
 */
import { copyFile, glob, mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { run } from '../src/setup/run.mjs'

interface Manifest {
  readonly name: string
  readonly version: string
  readonly optionalDependencies?: Readonly<Record<string, string>>
  readonly [field: string]: unknown
}

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)))
const OUTPUT = resolve(process.argv[2] ?? join(ROOT, 'out/packages'))
const MODEL = join(ROOT, 'models/lookout-nano')
/** Fields of the repository's manifest that are useless or harmful in an installed package. */
const OWN_FIELDS = ['private', 'scripts', 'devDependencies', 'allowScripts', 'overrides', 'scarfSettings', 'files']

await run(process.execPath, [join(ROOT, 'scripts/build.ts')])
for await (const tarball of glob('*.tgz', { cwd: OUTPUT })) await rm(join(OUTPUT, tarball))
const model = await stage(MODEL, { files: await filesOf(MODEL), licence: true })
const platforms = await platformPackages()
const lookout = await stage(ROOT, {
  files: await filesOf(ROOT),
  change: (manifest) => ({
    ...Object.fromEntries(Object.entries(manifest).filter(([field]) => !OWN_FIELDS.includes(field))),
    optionalDependencies: {
      ...manifest.optionalDependencies,
      // A GPU's package has 140 MB: who wants it installs it.
      ...Object.fromEntries(
        [model, ...platforms].filter(({ name }) => !name.endsWith('-cuda')).map(({ name, version }) => [name, version]),
      ),
    },
  }),
})
for (const { name, folder } of [lookout, model, ...platforms]) {
  const [tarball] = await npmPack(folder, '--pack-destination', OUTPUT)
  console.log(`${relative(process.cwd(), join(OUTPUT, tarball!.filename))}: ${name}, ${megabytes(tarball!.size)}`)
}
if (platforms.length === 0) {
  console.log(
    'There are no platform packages ("npm run platform-packages" makes them): users need a C++ compiler for pictures.',
  )
}

/** Copies a package to a folder of its own, which npm packs as it is. */
async function stage(
  from: string,
  to: {
    readonly files: readonly string[]
    /** Whether the folder lacks the repository's licence. */
    readonly licence?: boolean
    readonly change?: (manifest: Manifest) => Record<string, unknown>
  },
) {
  const manifest = await readManifest(from)
  const folder = join(OUTPUT, manifest.name)
  await rm(folder, { recursive: true, force: true })
  for (const file of to.files) {
    await mkdir(dirname(join(folder, file)), { recursive: true })
    await copyFile(join(from, file), join(folder, file))
  }
  if (to.licence) await copyFile(join(ROOT, 'LICENSE'), join(folder, 'LICENSE'))
  const { files: _, ...published } = { ...(to.change?.(manifest) ?? manifest), ...provenance() } as Record<
    string,
    unknown
  >
  await writeManifest(folder, published)
  return { name: manifest.name, version: manifest.version, folder }
}

/** Where continuous integration publishes, npm records from which commit of which repository a package was made. */
function provenance(): Record<string, unknown> {
  const repository = process.env.GITHUB_REPOSITORY
  return {
    publishConfig: { access: 'public', provenance: true },
    ...(repository === undefined
      ? {}
      : { repository: { type: 'git', url: `git+https://github.com/${repository}.git` } }),
  }
}

/** What `npm run platform-packages` has made of this version, ready to be published. */
async function platformPackages() {
  const found = []
  const { version } = await readManifest(ROOT)
  for await (const file of glob('{*,@*/*}/package.json', { cwd: OUTPUT })) {
    const folder = dirname(join(OUTPUT, file))
    const manifest = await readManifest(folder)
    if (manifest.os === undefined) continue
    if (manifest.version !== version)
      throw new Error(`${file} is of version ${manifest.version}: run "npm run platform-packages"`)
    await writeManifest(folder, { ...manifest, ...provenance() })
    found.push({ name: manifest.name, version, folder })
  }
  return found
}

/** The files that npm would pack. */
async function filesOf(folder: string): Promise<readonly string[]> {
  const [packed] = await npmPack(folder, '--dry-run')
  return packed!.files.map(({ path }) => path)
}

interface Packed {
  readonly filename: string
  /** In bytes. */
  readonly size: number
  readonly files: readonly { readonly path: string }[]
}

async function npmPack(folder: string, ...options: readonly string[]): Promise<readonly Packed[]> {
  const printed = await run('npm', ['pack', '--json', '--ignore-scripts', ...options], { cwd: folder })
  // An array until npm 11, and an object by the packages' names after it.
  return Object.values(JSON.parse(printed) as readonly Packed[] | Record<string, Packed>)
}

async function readManifest(folder: string): Promise<Manifest> {
  return JSON.parse(await readFile(join(folder, 'package.json'), 'utf8'))
}

async function writeManifest(folder: string, manifest: object): Promise<void> {
  await writeFile(join(folder, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`)
}

function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`
}
