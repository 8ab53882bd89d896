import { stringify } from 'yaml'
import type { ModelCard } from '../models/card.ts'

/** The facts in the folder's README. */
export interface Description {
  readonly card: ModelCard
  /** File names of the language model and the projector. */
  readonly files: readonly string[]
  /** Total number of parameters. */
  readonly parameters: number
  /** Whether the model takes audio, which the exported folder does not support. */
  readonly leavesAudio: boolean
}

/** The model card that Hugging Face shows: metadata in YAML, then Markdown. */
export function readme({ card, files, parameters, leavesAudio }: Description): string {
  const metadata = {
    library_name: 'transformers',
    pipeline_tag: 'image-text-to-text',
    ...licence(card.license),
  }
  const left = leavesAudio ? '\nIts audio encoder is left out: the class takes text, images and video.\n' : ''
  return `---
${stringify(metadata)}---

# ${card.name}

${(parameters / 1e6).toFixed(1)} million parameters, for \`Qwen3VLForConditionalGeneration\` of Hugging Face Transformers and for vLLM. Licence: ${card.license}.

\`lookout export-hf\` made this folder from ${files.map((file) => `\`${file}\``).join(' and ')}. The values of the weights are those of these files.
${left}
One formula differs: the class computes the GELU of the merger exactly, llama.cpp in its tanh form.
`
}

/** Hugging Face accepts identifiers such as `apache-2.0`, and any name with the identifier `other`. */
function licence(name: string): object {
  const identifier = name.toLowerCase()
  const isOne = /^[a-z][a-z0-9.-]*$/.test(identifier) && identifier !== 'unknown'
  return isOne ? { license: identifier } : { license: 'other', license_name: name }
}
