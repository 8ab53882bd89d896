import { fileURLToPath } from 'node:url'
import koffi from 'koffi'
import { bindDeviceChoice, type DeviceChoice } from '../../src/inference/local/native/device-rows.ts'
import { compileAlone } from './kernels-alone.ts'

const DEVICE = new URL('../../src/inference/local/native/device/', import.meta.url)
const RUNTIME = fileURLToPath(new URL('cuda-on-host', import.meta.url))

export interface DeviceOnHost {
  readonly choice: DeviceChoice
  /** What ggml's CUDA backend calls before it copies a tensor from `logits` to `to`. */
  keeps(name: string, logits: unknown, to: unknown, bytes: number): boolean
}

/** The kernels that choose tokens, compiled for the CPU: they are those of `choice.cu`, for small blocks. */
export async function compileDeviceChoice(): Promise<DeviceOnHost> {
  const source = fileURLToPath(new URL('choice.cu', DEVICE))
  const path = await compileAlone({
    name: 'device-choice',
    source,
    kernels: [`${RUNTIME}/cuda_runtime.h`],
    flags: ['-x', 'c++', '-DLOOKOUT_SMALL', `-I${RUNTIME}`],
  })
  const p = 'void *'
  const keeps = koffi
    .load(path)
    .func('_Z13lookout_keepsPKcPKvPvmiP11CUstream_st', 'bool', ['str', p, p, 'size_t', 'int', p])
  return {
    choice: bindDeviceChoice(path)!,
    keeps: (name, logits, to, bytes) => keeps(name, logits, to, bytes, 0, null) as boolean,
  }
}
