import { readCatalogue } from '../../catalogue/catalogue.ts'
import { idOfEntry, toCatalogueModel } from '../../catalogue/catalogue-model.ts'
import type { CatalogueEntry } from '../../catalogue/catalogue-schema.ts'
import { type EntryFit, rankForMachine } from '../../catalogue/machine-fit.ts'
import type { MachineSpeed } from '../../catalogue/speed-estimate.ts'
import type { Config } from '../../config/config.ts'
import { storedCards } from '../../hub/cache/model-store.ts'
import { formatBytes } from '../../hub/units.ts'
import { machineSpeed } from '../../inference/engines/engines.ts'
import { memoryForModels } from '../../models/machine-memory.ts'
import { LINE_COLUMNS, printJson, toTable, wrap } from '../output.ts'

const USES: Readonly<Record<CatalogueEntry['uses'][number], string>> = {
  general: 'general use',
  documents: 'documents',
  grounding: 'boxes and points',
  video: 'video',
  audio: 'sound',
}
const HEAD = ['NAME', 'SIZE', 'MEMORY', 'FITS', 'TOKENS/S', 'LICENCE']

/** A model of the catalogue: how it would run on this machine, and its id if it is already here. */
interface Listed {
  readonly fit: EntryFit
  readonly id: string | null
}

/** The first time, prints on a terminal why nothing happens for some seconds. */
export function measuredSpeed(config: Config): Promise<MachineSpeed | null> {
  const onMeasure = () => {
    if (process.stderr.isTTY) process.stderr.write('Measuring how fast this machine computes (once) ...\n')
  }
  return machineSpeed({ ...config, onMeasure })
}

/** Prints the catalogue for this machine. Asks neither the hub nor a server. */
export async function listCatalogue(config: Config, isJson: boolean): Promise<void> {
  const available = memoryForModels(config.modelMemoryBytes)
  const cards = await storedCards(config.modelStore)
  const here = cards.map(({ ids, aliases, source }) => ({ id: ids[0]!, aliases, source }))
  const speed = await measuredSpeed(config)
  const fits = rankForMachine(await readCatalogue(), { available, speed })
  const listed = fits.map((fit) => ({ fit, id: idOfEntry(fit.entry, here) }))
  if (isJson) printJson(listed.map(({ fit, id }) => toCatalogueModel(fit, id)))
  else process.stdout.write(toText(listed, available))
}

function toText(all: readonly Listed[], available: number): string {
  const fitting = all.filter(({ fit }) => fit.fits !== 'no')
  const larger = all.filter(({ fit }) => fit.fits === 'no')
  const paragraphs = [
    ...(fitting.length === 0
      ? [`None of the catalogue's models fits ${formatBytes(available)} of memory.`]
      : [
          `${formatBytes(available)} of memory are available to models. These fit, the best first:`,
          rowsOf(fitting),
          notesOn(fitting.map(({ fit }) => fit)),
        ]),
    ...(larger.length === 0 ? [] : [tooLarge(larger.map(({ fit }) => fit))]),
    ...(fitting.length === 0 ? [] : [nextSteps(fitting)]),
    prose('docs/choosing.md tells which model suits which job, and what each licence allows.'),
  ]
  return `${paragraphs.join('\n\n')}\n`
}

/** The table, with a line below each row for details that do not fit in it. */
function rowsOf(listed: readonly Listed[]): string {
  const table = toTable(
    HEAD,
    listed.map(({ fit: { entry, bytes, memory, fits, speed } }) => [
      entry.name,
      formatBytes(bytes),
      formatBytes(memory),
      fits,
      speed === null ? '-' : `about ${Number(speed.tokensPerSecond.toPrecision(2))}`,
      entry.licence.name + (entry.licence.commercialUse === 'yes' ? '' : '*'),
    ]),
  )
  const [head, ...rows] = table.trimEnd().split('\n')
  const below = listed.map(({ fit: { entry }, id }) => {
    const uses = entry.uses.map((use) => USES[use]).join(', ')
    return [prose(`for ${uses}`, '  '), ...(id === null ? [] : [`  here already, as ${id}`])]
  })
  return [head, ...rows.flatMap((row, index) => [row, ...below[index]!])].join('\n')
}

function notesOn(fits: readonly EntryFit[]): string {
  const limited = fits.some(({ entry }) => entry.licence.commercialUse !== 'yes')
  const untried = fits.filter(({ entry }) => entry.tried === 'never').map(({ entry }) => entry.name)
  const all = untried.length === fits.length
  return prose(
    [
      'SIZE is what is downloaded. MEMORY and TOKENS/S are estimates; tight leaves little memory for other programs.',
      ...(fits.some(({ speed }) => speed === null) ? ['TOKENS/S is not known: this machine cannot be measured.'] : []),
      ...(limited ? ['* This licence limits commercial use, or does not say whether it is allowed.'] : []),
      ...(untried.length === 0
        ? []
        : [`Not tried by the developers of Lookout: ${all ? 'all of them' : untried.join(', ')}.`]),
    ].join(' '),
  )
}

function tooLarge(fits: readonly EntryFit[]): string {
  const needs = fits.map(({ entry, memory }) => `${entry.name} (${formatBytes(memory)})`)
  return prose(`Too large for this machine, with the memory that they take: ${needs.join(', ')}.`)
}

function nextSteps(fitting: readonly Listed[]): string {
  const seeing = fitting.find(({ fit }) => fit.entry.takes.includes('image'))
  const { name } = (seeing ?? fitting[0]!).fit.entry
  const ask =
    seeing === undefined
      ? `npx lookout chat ${name} "Hello!"`
      : `npx lookout chat ${name} photo.jpg "What is in this photo?"`
  return `To get one and ask it:\n\n  npx lookout pull ${name}\n  ${ask}`
}

function prose(text: string, indent = ''): string {
  return wrap(text, LINE_COLUMNS - indent.length)
    .map((line) => indent + line)
    .join('\n')
}
