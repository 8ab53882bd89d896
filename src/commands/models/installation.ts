import { createRequire } from 'node:module'
import type { Config } from '../../config/config.ts'
import type { Finding } from '../../doctor/finding.ts'
import { encoderProblem } from '../../inference/engines/engines.ts'
import { isFFmpegInstalled } from '../../media/decoding/ffmpeg-package.ts'
import { chooseSandbox } from '../../media/sandbox/choice.ts'
import {
  CPU,
  findCompiled,
  findPackaged,
  findRefusal,
  MTMD,
  platformPackage,
  wantsOwnKernels,
} from '../../setup/native-library.mjs'
import { locatePrebuilt } from '../../setup/prebuilt.mjs'

/** Findings about what is installed on this machine, what is missing, and what that means for requests. */
export function examineInstallation(config: Pick<Config, 'decoderSandbox'>): Finding[] {
  return [...nativeLibraries(), fFmpeg(), sandbox(config)]
}

function nativeLibraries(): Finding[] {
  try {
    const { platform } = locatePrebuilt()
    return [packageOf(platform), kernels(platform), encoder(platform)]
  } catch (error) {
    return [{ check: 'llama.cpp', verdict: 'warning', finding: (error as Error).message }]
  }
}

function packageOf(platform: string): Finding {
  const check = 'platform package'
  const name = platformPackage(platform)
  const version = installedVersion(name)
  if (version === null) return { check, verdict: 'skipped', finding: `${name} is not installed.` }
  if (findPackaged(MTMD, platform) !== null) return { check, verdict: 'ok', finding: `${name} ${version}.` }
  const finding = `${name} ${version} is not used: it is damaged, or was made from other sources than this version.`
  return { check, verdict: 'warning', finding }
}

function installedVersion(name: string): string | null {
  try {
    return createRequire(import.meta.url)(`${name}/package.json`).version
  } catch {
    return null
  }
}

function kernels(platform: string): Finding {
  const check = 'kernels'
  if (findCompiled(CPU, platform) !== null) {
    return { check, verdict: 'ok', finding: "Compiled for this machine's processor." }
  }
  const packaged = findPackaged(CPU, platform)
  if (packaged !== null) {
    return { check, verdict: 'ok', finding: `Those of the platform package for ${packaged.recipe.level}.` }
  }
  if (!wantsOwnKernels(platform)) {
    return { check, verdict: 'ok', finding: `Those of llama.cpp, the only ones for ${platform}.` }
  }
  const refusal = findRefusal(CPU, platform)
  const reason = refusal === null ? '' : ` The compiled ones failed their check: ${refusal}.`
  const remedy = ' Install the platform package of the same version, or a C++ compiler and run "npx lookout setup".'
  return { check, verdict: 'warning', finding: `Those of llama.cpp, which are slower.${reason || remedy}` }
}

function encoder(platform: string): Finding {
  const check = 'encoder'
  const problem = encoderProblem()
  if (problem !== null) return { check, verdict: 'warning', finding: problem }
  const origin = findCompiled(MTMD, platform) === null ? 'from the platform package' : 'compiled on this machine'
  return { check, verdict: 'ok', finding: `libmtmd, ${origin}.` }
}

function fFmpeg(): Finding {
  const check = 'FFmpeg'
  if (isFFmpegInstalled()) return { check, verdict: 'ok', finding: 'Videos and audio can be decoded.' }
  const finding = `Not installed: the server takes no videos and no audio. It is @seydx/node-av-${process.platform}-${process.arch}, an optional package.`
  return { check, verdict: 'warning', finding }
}

function sandbox({ decoderSandbox }: Pick<Config, 'decoderSandbox'>): Finding {
  const check = 'sandbox'
  try {
    const { isOn, description } = chooseSandbox(decoderSandbox)
    return { check, verdict: isOn ? 'ok' : 'warning', finding: `${description}.` }
  } catch (error) {
    return { check, verdict: 'failed', finding: `${(error as Error).message}.` }
  }
}
