import { enclose, type Syntax, writeLiteral } from './literal.ts'
import { type MediaFile, mediaOf } from './media-ref.ts'
import {
  codeSyntax,
  filesNote,
  isStreamed,
  OPENAI_CALLS,
  type OpenAiCall,
  program,
  type SnippetRequest,
} from './snippet-request.ts'

const STEP = '  '

/** The request as a module for Node: with OpenAI's package where the endpoint is OpenAI's, else with `fetch`. */
export function toTypeScript(request: SnippetRequest): string {
  const files = [...mediaOf(request.body).values()]
  const openAi = OPENAI_CALLS[request.path]
  const note = filesNote(files)
  return program(
    [
      ...(files.some(({ media }) => media.path === null) ? [`import { readFile } from 'node:fs/promises'`] : []),
      ...(openAi ? [`import OpenAI from 'openai'`] : []),
    ].join('\n'),
    [...(note === null ? [] : [`// ${note}`]), ...files.map((file) => loading(file, request.origin))].join('\n'),
    openAi ? openAiCall(request, openAi) : plainCall(request),
  )
}

function openAiCall(request: SnippetRequest, { resource, printed, known }: OpenAiCall): string {
  const { origin, key, body } = request
  const syntax = syntaxFor(body)
  const members = Object.entries(body as object)
  const own = members.filter(([name]) => !known.has(name))
  const fields = members
    .filter(([name]) => known.has(name))
    .map(([name, value]) => `${syntax.key(name)}: ${writeLiteral(value, syntax, STEP)}${typeOf(name, value)}`)
  // Spread, the fields pass the check of types.
  if (own.length > 0) fields.push(`...${writeLiteral(Object.fromEntries(own), syntax, STEP)}`)
  const lines = [
    `const client = new OpenAI({ baseURL: ${syntax.text(`${origin}/v1`)}, apiKey: ${syntax.text(key)} })`,
    `const reply = await client.${resource}.create(${enclose(fields, ['{', '}'], STEP)})`,
  ]
  if (isStreamed(request)) {
    lines.push(
      `for await (const chunk of reply) process.stdout.write(chunk.choices[0]?.delta.content ?? '')`,
      'console.log()',
    )
  } else lines.push(`console.log(reply.${printed})`)
  return lines.join('\n')
}

/** Questions of our own types pass the check too. */
function typeOf(name: string, value: unknown): string {
  const isOwn = name === 'questions' && (value as { type: string }[]).some(({ type }) => type.startsWith('x_'))
  return isOwn ? ' as any[]' : ''
}

function plainCall(request: SnippetRequest): string {
  const { origin, method, path, body, accept, key } = request
  const syntax = syntaxFor(body)
  const headers = {
    Authorization: `Bearer ${key}`,
    ...(accept === null ? {} : { Accept: accept }),
    ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
  }
  const options = [
    `method: ${syntax.text(method)}`,
    `headers: ${writeLiteral(headers, syntax, STEP)}`,
    ...(body === undefined ? [] : [`body: JSON.stringify(${writeLiteral(body, syntax, STEP)})`]),
  ]
  return [
    `const response = await fetch(${syntax.text(origin + path)}, ${enclose(options, ['{', '}'], STEP)})`,
    isStreamed(request)
      ? 'for await (const piece of response.body!) process.stdout.write(piece)'
      : 'console.log(await response.text())',
  ].join('\n')
}

const variable = ({ number }: MediaFile) => `media${number}`

function loading(file: MediaFile, origin: string): string {
  const { media, fileName } = file
  const base64 =
    media.path === null
      ? `readFile(${JSON.stringify(fileName)}, 'base64')`
      : `fetch(${JSON.stringify(origin + media.path)}).then(async (file) => Buffer.from(await file.arrayBuffer()).toString('base64'))`
  return `const ${variable(file)} = await ${base64}`
}

function syntaxFor(body: unknown): Syntax {
  return {
    ...codeSyntax(body, variable),
    none: 'null',
    yes: 'true',
    no: 'false',
    step: STEP,
    // In a literal, the plain name would set the prototype.
    key: (name) =>
      name === '__proto__' ? `['__proto__']` : /^[a-z_$][\w$]*$/i.test(name) ? name : JSON.stringify(name),
  }
}
