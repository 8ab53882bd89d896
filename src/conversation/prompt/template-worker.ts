/** The entry point of the threads that render long conversations. */
import { Template } from '@huggingface/jinja'

export interface RenderTask {
  /** Source of the template. */
  readonly source: string
  readonly values: object
}

let last: { readonly source: string; readonly template: Template } | null = null

export default function render({ source, values }: RenderTask): string {
  if (last?.source !== source) last = { source, template: new Template(source) }
  return last.template.render({ ...values })
}
