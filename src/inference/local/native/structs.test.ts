import { expect, test } from 'vitest'
import { llamaContextParams, llamaModelParams, mtmdContextParams, verifyDefaults } from './structs.ts'

const { defaults: modelDefaults } = llamaModelParams
const { defaults: contextDefaults } = llamaContextParams
const { defaults: mtmdDefaults } = mtmdContextParams

test('accepts the defaults of the release, with size_t as a number or a bigint', () => {
  verifyDefaults('llama_model_params', modelDefaults, modelDefaults)
  verifyDefaults('llama_context_params', { ...contextDefaults, n_samplers: 0n }, contextDefaults)
})

test('names the field that differs', () => {
  const moved = { ...contextDefaults, n_batch: 512, n_ubatch: 1 }
  expect(() => verifyDefaults('llama_context_params', moved, contextDefaults)).toThrow(
    /llama_context_params\.n_batch defaults to 512, but llama\.cpp 0\.4\.0 has 2048.*npm ci/,
  )
  const { warmup: _, ...short } = mtmdDefaults
  expect(() => verifyDefaults('mtmd_context_params', short, mtmdDefaults)).toThrow(/warmup defaults to undefined/)
})
