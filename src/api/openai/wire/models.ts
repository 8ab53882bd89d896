import { z } from 'zod'
import { responseSchemas, responses } from '../../http/wire/components.ts'

const plain = {
  id: z.string(),
  object: z.literal('model'),
  created: z.int(),
  owned_by: z.string(),
}

/** The fields after `owned_by` are from Mistral's API and vLLM; only servers with `compatibility: openai` have them. */
export const model = responses.object('Model', {
  ...plain,
  type: z.literal('base').optional(),
  max_context_length: z.int().min(0).optional(),
  max_model_len: z.int().min(0).optional().describe('The same, as vLLM calls it.'),
  capabilities: z.record(z.string(), z.boolean()).register(responseSchemas, { id: 'ModelCapabilities' }).optional(),
})

const reasoning = responses.object('ReasoningSupport', { supported: z.boolean(), always_enabled: z.boolean() })

const numericParts = responses.object('FingerprintParts', {
  weights: z.string().describe('Hash of the weights.'),
  encoder: z.string().optional(),
  adapter: z.string().optional(),
  template: z.string(),
  release: z.string(),
  kernels: z.string(),
  devices: z.string().optional(),
  settings: z.string(),
})

/** The model with the fields that `extended=true` adds. */
export const extendedModel = z
  .object({
    ...plain,
    name: z.string(),
    capabilities: z.array(z.string()),
    modalities: z.array(z.string()),
    output_formats: z.array(z.string()),
    sampling_parameters: z.array(z.string()),
    reasoning,
    max_context_tokens: z.int(),
    max_output_tokens: z.int(),
    description: z.string().optional(),
    credits_per_million_input_tokens: z.int(),
    credits_per_million_output_tokens: z.int(),
    credits_per_million_cache_read_tokens: z.int(),
    early_access: z.boolean(),
    fingerprint: z
      .string()
      .optional()
      .describe('What its numerical results depend on; absent for a remote model, and before a model is loaded.'),
    fingerprint_parts: numericParts.optional(),
  })
  .register(responseSchemas, { id: 'ExtendedModel' })

export const anyModel = z.union([extendedModel, model]).register(responseSchemas, { id: 'ListedModel' })

export const modelList = responses.object('ModelList', { object: z.literal('list'), data: z.array(anyModel) })

/** Response of `DELETE /v1/models/{model_id}`: OpenAI's fields and the number of bytes freed. */
export const deletedModel = responses.object('DeletedModel', {
  id: z.string(),
  object: z.literal('model'),
  deleted: z.literal(true),
  freed_bytes: z.int().min(0),
})

export type DeletedModelBody = z.output<typeof deletedModel>
export type ModelBody = z.output<typeof model>
export type ExtendedModelBody = z.output<typeof extendedModel>
