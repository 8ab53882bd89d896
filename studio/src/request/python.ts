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

const STEP = '    '

/** The request as a Python program: with OpenAI's package where the endpoint is OpenAI's, else with `requests`. */
export function toPython(request: SnippetRequest): string {
  const files = [...mediaOf(request.body).values()]
  const openAi = OPENAI_CALLS[request.path]
  const note = filesNote(files)
  const standard = [
    ...(files.length > 0 ? ['import base64'] : []),
    ...(files.some(({ media }) => media.path === null) ? ['from pathlib import Path'] : []),
    ...(files.some(({ media }) => media.path !== null) ? ['from urllib.request import urlopen'] : []),
  ]
  return program(
    standard.join('\n'),
    openAi ? 'from openai import OpenAI' : 'import requests',
    [...(note === null ? [] : [`# ${note}`]), ...files.map((file) => loading(file, request.origin))].join('\n'),
    openAi ? openAiCall(request, openAi) : plainCall(request),
  )
}

function openAiCall(request: SnippetRequest, { resource, printed, known }: OpenAiCall): string {
  const { origin, key, body } = request
  const syntax = syntaxFor(body)
  const members = Object.entries(body as object)
  const extra = Object.fromEntries(members.filter(([name]) => !known.has(name)))
  const given = members.filter(([name]) => known.has(name))
  if (Object.keys(extra).length > 0) given.push(['extra_body', extra])
  const call = enclose(
    given.map(([name, value]) => `${name}=${writeLiteral(value, syntax, STEP)}`),
    ['(', ')'],
    STEP,
  )
  const lines = [
    `client = OpenAI(base_url=${syntax.text(`${origin}/v1`)}, api_key=${syntax.text(key)})`,
    `reply = client.${resource}.create${call}`,
  ]
  if (isStreamed(request)) {
    lines.push(
      'for chunk in reply:',
      '    for choice in chunk.choices:',
      '        print(choice.delta.content or "", end="", flush=True)',
      'print()',
    )
  } else lines.push(`print(reply.${printed})`)
  return lines.join('\n')
}

function plainCall(request: SnippetRequest): string {
  const { origin, method, path, body, accept, key } = request
  const syntax = syntaxFor(body)
  const headers = { Authorization: `Bearer ${key}`, ...(accept === null ? {} : { Accept: accept }) }
  const call = [
    syntax.text(origin + path),
    `headers=${writeLiteral(headers, syntax, STEP)}`,
    ...(body === undefined ? [] : [`json=${writeLiteral(body, syntax, STEP)}`]),
    ...(isStreamed(request) ? ['stream=True'] : []),
  ]
  return [
    `response = requests.${method.toLowerCase()}${enclose(call, ['(', ')'], STEP)}`,
    ...(isStreamed(request)
      ? ['for line in response.iter_lines():', '    print(line.decode())']
      : ['print(response.text)']),
  ].join('\n')
}

const variable = ({ number }: MediaFile) => `media_${number}`

function loading(file: MediaFile, origin: string): string {
  const { media, fileName } = file
  const bytes =
    media.path === null
      ? `Path(${JSON.stringify(fileName)}).read_bytes()`
      : `urlopen(${JSON.stringify(origin + media.path)}).read()`
  return `${variable(file)} = base64.b64encode(${bytes}).decode()`
}

function syntaxFor(body: unknown): Syntax {
  return { ...codeSyntax(body, variable), none: 'None', yes: 'True', no: 'False', step: STEP }
}
