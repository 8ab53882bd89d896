import { z } from 'zod'
import { SETTINGS, type SettingName, settingsSchema } from '../src/config/settings.ts'

/** Between these lines of docs/operations.md stands the table; `npm run settings-table` writes it there. */
const BEGIN = '<!-- settings: written by npm run settings-table -->'
const END = '<!-- /settings -->'

/** @returns the page with the table as it is now. @throws Error when the page has no place for it. */
export function withSettingsTable(page: string): string {
  const [before, rest] = page.split(BEGIN)
  const after = rest?.split(END)[1]
  if (after === undefined) throw new Error(`The page has no lines '${BEGIN}' and '${END}'`)
  return `${before}${BEGIN}\n${settingsTable()}${END}${after}`
}

/** All settings, in Markdown. */
function settingsTable(): string {
  const types = z.toJSONSchema(settingsSchema).properties!
  const rows = SETTINGS.map(({ name, variable, help, default: shown }) =>
    [`\`${variable}\``, typeOf(types[name]!, name), shown, help].join(' | ').replaceAll('*', '\\*'),
  )
  const head = ['variable | type | default | what it does', '--- | --- | --- | ---']
  return [...head, ...rows].map((row) => `| ${row} |\n`).join('')
}

const TYPE_NAMES: Readonly<Record<string, string>> = {
  string: 'text',
  number: 'number',
  array: 'list',
  object: 'map',
}

function typeOf(schema: z.core.JSONSchema._JSONSchema, setting: SettingName): string {
  const { type, anyOf } = schema as z.core.JSONSchema.JSONSchema
  const types = [type, ...(anyOf ?? []).map((one) => (one as z.core.JSONSchema.JSONSchema).type)].flat()
  const known = types.find((one) => one !== undefined && one in TYPE_NAMES)
  if (known === undefined) throw new Error(`The type of ${setting} has no name`)
  return TYPE_NAMES[known]!
}
