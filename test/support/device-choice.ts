import { fileURLToPath } from 'node:url'
import koffi from 'koffi'
import { bindDeviceChoice, type DeviceChoice } from '../../src/inference/local/native/device/device-rows.ts'
import type { NativeLibraries } from '../../src/inference/local/native/libraries.ts'
import { compileAlone } from './kernels-alone.ts'

const DEVICE = new URL('../../src/inference/local/native/device/', import.meta.url)
const RUNTIME = fileURLToPath(new URL('cuda-on-host', import.meta.url))

export interface DeviceOnHost {
  readonly choice: DeviceChoice
  /** What ggml's CUDA backend calls before it copies a tensor from `logits` to `to`. */
  keeps(name: string, logits: unknown, to: unknown, bytes: number): boolean
}

/** The kernels that choose tokens, compiled for the CPU: they are those of `logits.cu`, for small blocks. */
export async function compileDeviceChoice(): Promise<DeviceOnHost> {
  const source = fileURLToPath(new URL('logits.cu', DEVICE))
  const path = await compileAlone({
    name: 'device-choice',
    source,
    kernels: [`${RUNTIME}/cuda_runtime.h`],
    flags: ['-x', 'c++', '-DLOOKOUT_SMALL', `-I${RUNTIME}`],
  })
  const p = 'void *'
  const keeps = koffi
    .load(path)
    .func('_Z20lookout_keeps_logitsPKcPKvPvmiP11CUstream_st', 'bool', ['str', p, p, 'size_t', 'int', p])
  return {
    choice: bindDeviceChoice(path)!,
    keeps: (name, logits, to, bytes) => keeps(name, logits, to, bytes, 0, null) as boolean,
  }
}

/** The CPU's backend with its logits kept as CUDA's keeps them. What the device has is what llama.cpp has. */
export function onDevice(libraries: NativeLibraries, device: DeviceOnHost): NativeLibraries {
  const { llama } = libraries
  let vocabularySize = 0
  const create = (size: number) => {
    vocabularySize = size
    return device.choice.create(size)
  }
  const decode: typeof llama.decode = (context, batch) => {
    const code = llama.decode(context, batch)
    const flags = koffi.decode(batch.logits, 'int8', batch.n_tokens) as Int8Array
    const rows = flags.reduce((sum, flag) => sum + flag, 0)
    if (code !== 0 || rows === 0) return code
    const logits = llama.get_logits_ith(context, flags.indexOf(1))
    device.keeps('result_output', logits, logits, rows * vocabularySize * 4)
    return code
  }
  return { ...libraries, llama: { ...llama, decode }, deviceChoice: { ...device.choice, create } }
}
