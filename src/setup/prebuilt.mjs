// Locates the libraries of llama.cpp that its npm package contains.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { PACKAGE_RELEASE, SetupError } from './native-library.mjs'

/** @import { PrebuiltLibraries } from './types.ts' */

const PACKAGES = {
  'linux-x64': 'linux-x64',
  'linux-arm64': 'linux-arm64',
  'darwin-arm64': 'mac-arm64-metal',
}

const THIS_PLATFORM = `${process.platform}-${process.arch}`

/**
 * Finds the prebuilt llama.cpp libraries in node_modules.
 * @param platform the target platform; another than this machine's only to compile for it.
 * @returns {PrebuiltLibraries}
 * @throws SetupError when the platform is not supported or the package is not installed.
 */
export function locatePrebuilt(platform = THIS_PLATFORM) {
  const name = prebuiltName(platform)
  if (platform === THIS_PLATFORM && process.platform === 'linux' && !usesGlibc()) {
    throw new SetupError(
      "Lookout's local engine needs a Linux with glibc (Debian, Ubuntu, Fedora, ...). This one uses another C library, as Alpine does.",
    )
  }
  const module = prebuiltPackage(platform)
  let root
  try {
    // The package exports dist/index.js, but not package.json.
    root = dirname(dirname(createRequire(import.meta.url).resolve(module)))
  } catch {
    throw new SetupError(
      `The package ${module} is not installed. It is an optional dependency: install without "--omit=optional" ("npm ci --include=optional").`,
    )
  }
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  if (version !== PACKAGE_RELEASE) {
    throw new SetupError(`${module} is version ${version}, but this release of Lookout needs ${PACKAGE_RELEASE}.`)
  }
  const directory = join(root, 'bins', name)
  const files = existsSync(directory) ? readdirSync(directory) : []
  const find = (stem) => {
    const file = files.find((f) => new RegExp(`^lib${stem}(\\.v[\\d.]+)?\\.(so|dylib)$`).test(f))
    if (file === undefined) throw new SetupError(`${module} is incomplete: lib${stem} is missing in ${directory}.`)
    return join(directory, file)
  }
  return {
    platform,
    directory,
    ggmlBase: find('ggml-base'),
    ggml: find('ggml'),
    llama: find('llama'),
    llamaCommon: find('llama-common'),
  }
}

/**
 * The npm package with the prebuilt libraries for a platform.
 * @param {string} platform
 * @throws SetupError when the platform is not supported.
 */
export function prebuiltPackage(platform) {
  return `@node-llama-cpp/${prebuiltName(platform)}`
}

function prebuiltName(platform) {
  const name = PACKAGES[platform]
  if (name !== undefined) return name
  throw new SetupError(
    `Lookout's local engine does not support ${platform}. It supports ${Object.keys(PACKAGES).join(', ')}.`,
  )
}

function usesGlibc() {
  process.report.excludeNetwork = true
  return process.report.getReport().header.glibcVersionRuntime !== undefined
}
