/** The entry point of a process that reads files of models, and runs their chat templates. */
import { answerQuestions, attempted } from '../../lib/guarded/guarded-program.ts'
import { JinjaTemplate } from '../../templates/jinja/template.ts'
import { probeTemplate, type TemplateFindings } from '../../templates/probe.ts'
import { readTraits, type TemplateTraits } from '../../templates/traits.ts'
import { adapterProblem } from './adapter-check.ts'
import { type GgufHeader, metadataOf, parseHead, readGgufHeader, readGgufMetadata } from './gguf.ts'
import { packMetadata } from './gguf-digest.ts'
import { readFolderHeaders } from './hugging-face.ts'
import type { CardFolder } from './weight-files.ts'

export type ReaderQuestion =
  /** Reads the metadata of a file. With `size`, its tensors must begin within that. */
  | { readonly type: 'file'; readonly path: string; readonly size: number | null }
  /** The same from the beginning of a file; null if its header reaches beyond that. */
  | { readonly type: 'head'; readonly head: Uint8Array; readonly size: number }
  /** Why an adapter does not fit a model, or null. `model`: the parts of its file. */
  | { readonly type: 'adapter'; readonly path: string; readonly model: readonly string[] }
  /** The small files of a Hugging Face folder. */
  | { readonly type: 'folder'; readonly name: string; readonly place: CardFolder }
  /** Probes a template. */
  | { readonly type: 'template'; readonly source: string }
  /** Renders the prompt of each conversation. */
  | { readonly type: 'render'; readonly source: string; readonly conversations: readonly Variables[] }

type Variables = Readonly<Record<string, unknown>>

export interface TemplateReport {
  readonly findings: TemplateFindings
  readonly traits: TemplateTraits
}

/** A rendered prompt has placeholders for clients' texts, so it is far shorter. */
const MOST_RENDERED = 2 ** 24

let last: { readonly source: string; readonly template: JinjaTemplate } | null = null

function templateOf(source: string): JinjaTemplate {
  if (last?.source !== source) last = { source, template: new JinjaTemplate(source) }
  return last.template
}

answerQuestions(async (question: ReaderQuestion) => {
  switch (question.type) {
    case 'file': {
      const { path, size } = question
      return size === null
        ? packMetadata(await readGgufMetadata(path))
        : checkedMetadata(await readGgufHeader(path), size)
    }
    case 'head': {
      const { buffer, byteOffset, byteLength } = question.head
      const header = parseHead(Buffer.from(buffer, byteOffset, byteLength), question.size)
      return header && checkedMetadata(header, question.size)
    }
    case 'adapter': {
      const [adapter, ...model] = await Promise.all([question.path, ...question.model].map(readGgufHeader))
      return adapterProblem(adapter!, model)
    }
    case 'folder':
      return readFolderHeaders(question.name, question.place)
    case 'template': {
      const template = templateOf(question.source)
      const render = (variables: Record<string, unknown>) => template.render(variables)
      return { findings: probeTemplate(question.source, render), traits: readTraits(render) } satisfies TemplateReport
    }
    case 'render': {
      const template = templateOf(question.source)
      return question.conversations.map((variables) => attempted(() => rendered(template, variables)))
    }
  }
})

function rendered(template: JinjaTemplate, variables: Variables): string {
  const text = template.render(variables)
  if (text.length > MOST_RENDERED) throw new Error(`it makes a prompt of more than ${MOST_RENDERED} characters`)
  return text
}

function checkedMetadata({ fields, tensors }: GgufHeader, size: number) {
  const end = tensors.reduce((most, { offset }) => Math.max(most, offset), 0)
  if (end > size) throw new Error('the file ends before its last tensor begins')
  return packMetadata(metadataOf(fields))
}
