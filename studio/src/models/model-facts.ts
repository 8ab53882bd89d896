import type { Model } from '../server/wire.ts'
import { countText } from '../widgets/quantities.ts'

/** Capabilities in words; those that another one implies are left out. */
const CAPABILITIES: Readonly<Record<string, string>> = {
  tool_calling: 'calls tools',
  response_format_json_schema: 'JSON by a schema',
  regex: 'text by a regex',
}
const IMPLIED = new Set(['response_format_json_object', 'tool_choice_required'])

export const MODALITIES: Readonly<Record<string, string>> = {
  text: 'text',
  image: 'images',
  video: 'video',
  audio: 'sound',
}

/** What a model takes, one word each. */
export function takes({ modalities }: Model): string[] {
  return modalities.map((name) => MODALITIES[name] ?? name)
}

const FORMATS: Readonly<Record<string, string>> = {
  point: 'points',
  box: 'boxes',
  polygon: 'polygons',
  clip: 'clips',
}

/** How it can answer, beyond plain text. */
export function answersWith({ output_formats: formats }: Model): string[] {
  return formats.filter((name) => name !== 'text').map((name) => FORMATS[name] ?? name)
}

export function abilitiesOf({ capabilities, reasoning }: Model): string[] {
  const words = capabilities.filter((name) => !IMPLIED.has(name)).map((name) => CAPABILITIES[name] ?? plain(name))
  return [...(reasoning.supported ? ['thinks first'] : []), ...words]
}

export function contextText({ max_context_tokens: context, max_output_tokens: output }: Model): string {
  return `${countText(context)} tokens${output === 0 ? '' : `, answers up to ${countText(output)}`}`
}

function plain(name: string): string {
  return name.replaceAll('_', ' ')
}
