import { API_PAGES } from './api-pages.ts'

/** The API reference as pages in Markdown, from the document that `GET /openapi.json` returns. */

interface Schema {
  readonly $ref?: string
  readonly type?: string | readonly string[]
  readonly description?: string
  readonly deprecated?: boolean
  readonly enum?: readonly unknown[]
  readonly const?: unknown
  readonly default?: unknown
  readonly minimum?: number
  readonly maximum?: number
  readonly exclusiveMinimum?: number
  readonly minLength?: number
  readonly maxLength?: number
  readonly minItems?: number
  readonly maxItems?: number
  readonly format?: string
  readonly items?: Schema
  readonly anyOf?: readonly Schema[]
  readonly oneOf?: readonly Schema[]
  readonly allOf?: readonly Schema[]
  readonly properties?: Readonly<Record<string, Schema>>
  readonly additionalProperties?: boolean | Schema
  readonly required?: readonly string[]
}

type Content = Readonly<Record<string, { readonly schema: Schema }>>

interface Parameter {
  readonly $ref?: string
  readonly name: string
  readonly in: string
  readonly required?: boolean
  readonly description?: string
  readonly schema: Schema
}

interface Operation {
  readonly summary: string
  readonly parameters?: readonly Parameter[]
  readonly requestBody?: { readonly content: Content }
  readonly responses: Readonly<Record<string, { readonly description: string; readonly content?: Content }>>
}

interface Document {
  readonly info: { readonly version: string; readonly description: string }
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  readonly components: {
    readonly schemas: Readonly<Record<string, Schema>>
    readonly parameters: Readonly<Record<string, Parameter>>
  }
}

type PathOperation = Operation & { readonly method: string; readonly path: string }

/** @returns file names, relative to the folder of the pages, and their text */
export function* apiPages(openApi: Record<string, unknown>): Generator<[file: string, text: string], void, void> {
  const document = openApi as unknown as Document
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ ...operation, method: method.toUpperCase(), path })),
  )
  for (const page of API_PAGES) {
    if (page.name === '') yield ['api/index.md', overview(document, operations)]
    else if (page.name === 'schemas') yield ['api/schemas.md', schemaPage(document)]
    else {
      const own = operations.filter(({ path }) => pageOf(path) === page.name)
      yield [
        `api/${page.name}.md`,
        `# ${page.title}\n\n${own.map((operation) => section(document, operation)).join('\n')}`,
      ]
    }
  }
}

/** @throws Error for a path that no page shows */
function pageOf(path: string): string {
  const shown = API_PAGES.flatMap(({ name, paths }) => paths.map((own) => ({ name, own })))
    .filter(({ own }) => path === own || path.startsWith(`${own}/`))
    .sort((one, other) => other.own.length - one.own.length)
  if (shown[0] === undefined) throw new Error(`site/api-pages.ts has no page for ${path}`)
  return shown[0].name
}

function overview({ info }: Document, operations: readonly PathOperation[]): string {
  const rows = operations.map(
    ({ method, path, summary }) =>
      `| \`${method}\` | [\`${path}\`](./${pageOf(path)}.md#${anchor(method, path)}) | ${summary} |`,
  )
  return `# API reference

${info.description} Version ${info.version} of the interface. These pages are generated from the document that a server
returns for \`GET /openapi.json\`; client generators read the same.

Every request below \`/v1\` has the header \`Authorization: Bearer KEY\`. Bodies are JSON, except uploads
(\`multipart/form-data\`), downloads (bytes) and streams (\`text/event-stream\`). A running server shows the same at
\`/docs\`, where requests can be tried.

| | path | |
|---|---|---|
${rows.join('\n')}

## Errors

Errors have the shape of [\`Error\`](./schemas.md#error), except in the conventions of Anthropic, Ollama and TypeSafe, which
have their own:

\`\`\`json
{"error": {"message": "…", "type": "invalid_request_error", "param": "messages[0].content", "code": null}}
\`\`\`

\`param\` names the part of the request that is at fault. A response with status 429 or 503 has a \`Retry-After\` header.
[The contract](../docs/contributing/contract.md) lists what each endpoint promises, [Operating Lookout](../docs/operations.md#limits-and-budgets)
the limits.
`
}

function section(document: Document, { method, path, summary, ...operation }: PathOperation): string {
  const parts = [`## ${summary} {#${anchor(method, path)}}`, `\`${method} ${path}\``]
  if (operation.parameters) {
    const rows = operation.parameters
      .map((parameter) => document.components.parameters[nameOf(parameter.$ref ?? '')] ?? parameter)
      .map(
        ({ name, schema, description, required = false, in: place }) =>
          `| \`${name}\` | ${place} | ${typeOf(schema)} | ${notes(schema, { required, description })} |`,
      )
    parts.push('### Parameters', `| name | in | type | |\n|---|---|---|---|\n${rows.join('\n')}`)
  }
  if (operation.requestBody) {
    parts.push('### Request body')
    for (const [type, { schema }] of Object.entries(operation.requestBody.content)) {
      parts.push(`\`${type}\`: ${typeOf(schema)}`, fieldsOf(document, schema))
    }
  }
  const statuses = Object.entries(operation.responses)
  const failures = statuses.filter(([status]) => Number(status) >= 400)
  parts.push('### Responses')
  for (const [status, { description, content }] of statuses.filter(([status]) => Number(status) < 400)) {
    parts.push(`**${status}**: ${description}`)
    for (const [type, { schema }] of Object.entries(content ?? {})) {
      parts.push(`\`${type}\`: ${typeOf(schema)}`)
      if (type === 'application/json') parts.push(fieldsOf(document, schema))
    }
  }
  const shown = failures[0]?.[1].content?.['application/json']
  if (shown) parts.push(`**${failures.map(([status]) => status).join(', ')}**: ${typeOf(shown.schema)}`)
  return `${parts.filter(Boolean).join('\n\n')}\n`
}

function schemaPage({ components: { schemas } }: Document): string {
  const sections = Object.entries(schemas)
    .sort(([one], [other]) => one.localeCompare(other, 'en'))
    .map(([name, schema]) =>
      [`## ${name}`, schema.description, schema.properties ? table(schema) : typeOf(schema)]
        .filter(Boolean)
        .join('\n\n'),
    )
  return `---\noutline: 2\n---\n\n# Schemas\n\nThe objects of requests and responses.\n\n${sections.join('\n\n')}\n`
}

/** The fields of an object that a body refers to; nothing for a choice of objects. */
function fieldsOf({ components: { schemas } }: Document, { $ref }: Schema): string {
  const schema = $ref === undefined ? undefined : schemas[nameOf($ref)]
  return schema?.properties ? table(schema) : ''
}

function table({ properties = {}, required = [] }: Schema): string {
  const rows = Object.entries(properties).map(
    ([name, schema]) =>
      `| \`${name}\` | ${typeOf(schema)} | ${notes(schema, { required: required.includes(name), description: schema.description })} |`,
  )
  return `| field | type | |\n|---|---|---|\n${rows.join('\n')}`
}

function typeOf(schema: Schema): string {
  if (schema.$ref !== undefined) {
    const name = nameOf(schema.$ref)
    return `[${name}](./schemas.md#${name.toLowerCase()})`
  }
  const choices = schema.anyOf ?? schema.oneOf
  if (choices) return [...new Set(choices.map(typeOf))].join(' or ')
  if (schema.const !== undefined) return code(schema.const)
  if (schema.enum) return schema.enum.map(code).join(', ')
  if (schema.type === 'array') return schema.items ? `array of ${plural(typeOf(schema.items))}` : 'array'
  if (Array.isArray(schema.type)) return schema.type.join(' or ')
  return (schema.type as string | undefined) ?? 'any JSON'
}

function plural(type: string): string {
  return type.includes(' or ') ? `(${type})` : type
}

/** What is true of a value, beside its type. */
function notes(
  schema: Schema,
  { required, description }: { required: boolean; description: string | undefined },
): string {
  const limits = [schema, ...(schema.anyOf ?? [])].flatMap((one) => [
    range(one.exclusiveMinimum ?? one.minimum, one.maximum, '', one.exclusiveMinimum !== undefined),
    range(one.minItems, one.maxItems, ' entries'),
    range(one.minLength, one.maxLength, ' characters'),
  ])
  return [
    required ? '**Required.**' : '',
    escaped(description ?? ''),
    ...limits,
    schema.default === undefined ? '' : `Default: ${code(schema.default)}.`,
    schema.deprecated ? 'Deprecated.' : '',
  ]
    .filter(Boolean)
    .join(' ')
}

function range(least: number | undefined, most: number | undefined, unit: string, isOpen = false): string {
  if (least === undefined && most === undefined) return ''
  if (most === undefined) return `${isOpen ? 'More than' : 'At least'} ${least}${unit}.`
  if (least === undefined) return `At most ${most}${unit}.`
  if (least === most) return `Only ${most}${unit}.`
  return `${isOpen ? 'More than ' : ''}${least} to ${most}${unit}.`
}

function nameOf(reference: string): string {
  return reference.slice(reference.lastIndexOf('/') + 1)
}

/** `post-v1-detect`; the operation's summary may change. */
function anchor(method: string, path: string): string {
  return `${method}${path}`
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .replace(/-$/, '')
}

function code(value: unknown): string {
  return `\`${typeof value === 'string' && value !== '' ? value : JSON.stringify(value)}\``
}

/** Text of a table's cell, in which nothing is a tag of HTML or a placeholder of Vue. */
function escaped(text: string): string {
  return text.replaceAll('|', '\\|').replaceAll('\n', ' ').replaceAll('<', '&lt;').replaceAll('{{', '&#123;&#123;')
}
