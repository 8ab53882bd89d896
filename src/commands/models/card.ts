import { ConfigError } from '../../config/config.ts'
import { checkPromises } from '../../inference/contract/card-checks.ts'
import { describeCard } from '../../inference/engines/engines.ts'
import { isRecord } from '../../lib/json/parse-json.ts'
import { isWeights, type ModelCard, type ReadCard } from '../../models/card.ts'
import { readExamination } from '../../models/kept-examination.ts'
import { findStoredCards } from '../../models/stored-cards.ts'
import type { Command } from '../command.ts'
import { loadConfig } from '../load-config.ts'
import { readOptions } from '../options.ts'
import { printTable, showBytes } from '../output.ts'
import { SETTINGS_HELP } from '../settings-help.ts'
import { warn } from '../warn.ts'
import { describeExamination, toJson } from './examined.ts'
import { findKnownCard } from './known-models.ts'

export const card: Command = {
  help: `Usage: lookout card show MODEL [--json]

Prints the complete card of a model, and the source of each value: the card, a key in the header of a file, the chat
template, the family or a default. Loads nothing.

  MODEL   the id or another name of a model, a model card, a folder with one, or a GGUF file
  --json  a JSON object instead of a table

${SETTINGS_HELP}`,
  async run([action, ...args]) {
    if (action !== 'show') throw new ConfigError('expected card show; see lookout card --help')
    const { values, positionals } = readOptions(args, { json: { type: 'boolean' } }, ['MODEL'])
    const warnings: string[] = []
    const config = await loadConfig()
    const note = (message: string) => warnings.push(message)
    const read = await findKnownCard(positionals[0]!, config, note)
    const isStored = (await findStoredCards(config.modelStore)).cards.has(read.card.file)
    const examination = isStored ? await readExamination(read.card.file, note) : null
    const rows = rowsOf(read)
    // A card that a server would refuse is shown as well.
    const described = await describeChecked(read.card).catch((error: Error) => error)
    const facts = described instanceof Error ? null : described
    const all = [...warnings, ...(facts?.warnings ?? [])]
    if (values.json) {
      const { file: _file, directory: _directory, ...card } = read.card
      const origins = Object.fromEntries(rows.map(({ field, origin }) => [field, origin]))
      const sizes = facts && { file_bytes: facts.fileBytes, memory_bytes: facts.memoryBytes }
      process.stdout.write(
        `${JSON.stringify({ file: read.card.file, card, origins, ...sizes, examination: toJson(examination), warnings: all }, null, 2)}\n`,
      )
    } else {
      for (const message of all) warn(message)
      printTable(
        ['field', 'value', 'from'],
        rows.map(({ field, value, origin }) => [field, shown(value), origin]),
      )
      if (facts !== null) process.stdout.write(`\n${sizeOf(facts)}\n`)
      if (isStored) process.stdout.write(`Checked: ${describeExamination(examination)}.\n`)
    }
    if (described instanceof Error) throw described
  },
}

async function describeChecked(card: ModelCard) {
  const described = await describeCard(card)
  checkPromises(card, described.info)
  return described
}

function sizeOf({ fileBytes, memoryBytes }: Awaited<ReturnType<typeof describeCard>>): string {
  if (fileBytes === null) return 'The weights are on other machines.'
  return `Size: ${showBytes(fileBytes)}. Memory: about ${showBytes(memoryBytes)}.`
}

interface Row {
  readonly field: string
  readonly value: unknown
  readonly origin: string
}

function rowsOf({ card, written, origins }: ReadCard): Row[] {
  const { file: _file, directory: _directory, ...fields } = card
  const source = isWeights(card.file) ? 'its name' : 'card'
  const rows: Row[] = []
  const visit = (field: string, value: unknown, given: unknown) => {
    if (value === undefined) return
    if (isRecord(value)) {
      for (const [key, inner] of Object.entries(value))
        visit(field === '' ? key : `${field}.${key}`, inner, isRecord(given) ? given[key] : undefined)
    } else if (Array.isArray(value) && value.some(isRecord)) {
      for (const [index, inner] of value.entries())
        visit(`${field}[${index}]`, inner, Array.isArray(given) ? given[index] : undefined)
    } else {
      rows.push({ field, value, origin: given !== undefined ? source : (origins.of(field) ?? 'default') })
    }
  }
  visit('', fields, written)
  return rows
}

/** A value on one line. */
function shown(value: unknown): string {
  if (Array.isArray(value)) return value.length === 0 ? '-' : value.join(', ')
  const text = String(value)
  return typeof value === 'string' && (/[\p{C}]/u.test(text) || text.trim() !== text) ? JSON.stringify(text) : text
}
