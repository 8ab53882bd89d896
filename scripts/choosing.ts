/**
 * `npm run choosing`: updates the tables and sections of docs/choosing.md from models/catalogue.json. With `--check` the
 * script fails when they are out of date.
 */
import { readFile, writeFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { readCatalogue } from '../src/catalogue/catalogue.ts'
import { type CatalogueEntry, MEMORY_CLASSES } from '../src/catalogue/catalogue-schema.ts'

const PAGE = new URL('../docs/choosing.md', import.meta.url)
const USES = {
  general: 'photographs',
  grounding: 'boxes and points',
  documents: 'documents',
  video: 'video',
  audio: 'sound',
} as const satisfies Record<CatalogueEntry['uses'][number], string>
const COMMERCIAL = { yes: 'allowed', limited: 'limited', no: 'not allowed', unknown: 'unknown' } as const
const PLURAL = { point: 'points', box: 'boxes', polygon: 'polygons' } as const
const SHARED = 'faults-that-several-models-share'

const { checked, models } = await readCatalogue()
const shared = sharedFaults()
const parts = {
  table: jobTable(),
  scores: scoreTable(),
  licences: licenceTable(),
  models: [...models.map(section), sharedSection()].join('\n\n'),
}

const page = await readFile(PAGE, 'utf8')
let updated = page.replace(/(?<=The facts were looked up on )\d{4}-\d{2}-\d{2}/, checked)
for (const [name, text] of Object.entries(parts)) {
  const begin = `<!-- ${name}: npm run choosing -->`
  const end = `<!-- end of ${name} -->`
  const [before, rest] = updated.split(begin) as [string, string?]
  const at = rest?.indexOf(end) ?? -1
  if (rest === undefined || at < 0) throw new Error(`docs/choosing.md lacks ${begin} or ${end}`)
  updated = `${before}${begin}\n\n${text}\n\n${rest.slice(at)}`
}
if (!process.argv.includes('--check')) await writeFile(PAGE, updated)
else if (updated !== page) {
  console.error(`${fileURLToPath(PAGE)} is out of date: run "npm run choosing"`)
  process.exitCode = 1
}

/** Which model for which memory and job, best first. */
function jobTable(): string {
  const rows = MEMORY_CLASSES.flatMap((memory) =>
    Object.entries(USES).map(([use, job]) => {
      const place = ({ uses }: CatalogueEntry) => uses.indexOf(use as keyof typeof USES)
      const fitting = models.filter((entry) => entry.memoryClass === memory && place(entry) >= 0)
      return [`${memory} GB`, job, links(fitting.sort((one, other) => place(one) - place(other)))]
    }),
  )
  return table(
    ['memory', 'job', 'models, best first'],
    rows.filter(([, , found]) => found !== ''),
  )
}

function scoreTable(): string {
  const scored = models.filter(({ scores }) => scores.length > 0)
  const rows = scored.map((entry) => [
    link(entry),
    entry.scores.map(({ benchmark, value }) => `${benchmark}: ${value}`).join(', '),
  ])
  const sourcesOf = ({ scores }: CatalogueEntry) =>
    [...new Set(scores.map(({ setting, source }) => (setting === null ? source : `${source} (${setting})`)))].join('; ')
  const sources = [...Map.groupBy(scored, sourcesOf)].map(([from, entries]) => `- ${links(entries)}: ${from}.`)
  return [table(['model', 'scores'], rows), '', 'Sources:', '', ...sources].join('\n')
}

function licenceTable(): string {
  const rows = [...Map.groupBy(models, ({ licence }) => licence.name)].map(([name, entries]) => {
    const { commercialUse, meaning } = entries[0]!.licence
    return [
      name,
      COMMERCIAL[commercialUse],
      meaning,
      entries.length > models.length / 2 ? 'the others' : links(entries),
    ]
  })
  return table(['licence', 'commercial use', 'what it allows and asks for', 'models'], rows)
}

function sharedFaults(): ReadonlyMap<string, readonly CatalogueEntry[]> {
  const all = new Set(models.flatMap(({ faults }) => faults.map(({ fault }) => fault)))
  const having = (wanted: string) => models.filter(({ faults }) => faults.some(({ fault }) => fault === wanted))
  return new Map([...all].map((fault) => [fault, having(fault)] as const).filter(([, { length }]) => length > 1))
}

function sharedSection(): string {
  const lines = [...shared].map(([fault, entries]) => {
    const { source } = entries[0]!.faults.find((one) => one.fault === fault)!
    return `- ${links(entries)}: ${cited(fault, source)}`
  })
  return ['### Faults that several models share', '', ...lines].join('\n')
}

function section(entry: CatalogueEntry): string {
  const {
    title,
    name,
    maker,
    summary,
    takes,
    contextTokens,
    tools,
    thinks,
    languages,
    licence,
    places,
    prompt,
    tried,
  } = entry
  const abilities = [
    `${list(takes)}${contextTokens === null ? '' : `, in ${contextTokens.toLocaleString('en')} tokens of context`}`,
    ...(tools ? ['calls tools'] : []),
    ...(thinks === 'no' ? [] : [thinks === 'optional' ? 'can think first' : 'thinks first']),
    ...(languages === null ? [] : [`languages: ${languages}`]),
  ]
  const own = entry.faults.filter(({ fault }) => !shared.has(fault))
  const faults = own.map(({ fault, source }) => cited(fault, source))
  if (own.length < entry.faults.length)
    faults.push(`${own.length > 0 ? 'Others are ' : ''}[shared with other models](#${SHARED}).`)
  const lines = [
    `Takes ${abilities.join('; ')}.`,
    size(entry),
    `Licence: [${licence.name}](#licences), commercial use ${COMMERCIAL[licence.commercialUse]}.`,
    ...(places === null ? [] : [placesOf(places)]),
    ...(prompt === null ? [] : [`Prompt: \`${prompt}\``]),
    ...(tried === 'never' ? [] : [`Tried by us on ${tried.on}: ${tried.verdict}`]),
    ...(faults.length === 0 ? [] : [`Known faults: ${faults.join(' ')}`]),
  ]
  const intro = `${summary} By ${maker}.`
  return [`### ${title}`, '', `    npx lookout pull ${name}`, '', intro, '', ...lines.map((line) => `- ${line}`)].join(
    '\n',
  )
}

function size({ repository, quantisations, defaultQuantisation, projector }: CatalogueEntry): string {
  const chosen = quantisations.find((one) => one.name === defaultQuantisation)!
  const whole = chosen.model.bytes + (projector?.bytes ?? 0)
  const encoder = projector === null ? '' : `, of which ${gigabytes(projector.bytes)} are the encoder`
  const others = quantisations
    .filter((one) => one !== chosen)
    .map((one) => `${one.name} (${gigabytes(one.model.bytes)})`)
  const also = others.length === 0 ? '' : `; also ${list(others)}`
  return `${gigabytes(whole)} as ${chosen.name}${encoder}${also}, from [${repository}](https://huggingface.co/${repository}).`
}

function placesOf({ draws, notation, exactness }: NonNullable<CatalogueEntry['places']>): string {
  const form = notation.includes('<') ? `\`${notation}\`` : notation
  return `Draws ${list(draws.map((kind) => PLURAL[kind]))}: ${form}. ${exactness ?? 'How exact they are is not published'}.`
}

/** With its source, except where that is Lookout's own code. */
function cited(fault: string, source: string): string {
  const others = source.split('; ').filter((part) => !part.startsWith('src/'))
  return others.length === 0 ? fault : `${fault.replace(/\.$/, '')} (${others.join('; ')}).`
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  return [head, head.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n')
}

function links(entries: readonly CatalogueEntry[]): string {
  return entries.map(link).join(', ')
}

function link({ name, title }: CatalogueEntry): string {
  return `[${name}](#${anchor(title)})`
}

/** GitHub's anchor of a heading. */
function anchor(heading: string): string {
  return heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N} _-]/gu, '')
    .replaceAll(' ', '-')
}

function list(words: readonly string[]): string {
  return words.length < 2 ? words.join() : `${words.slice(0, -1).join(', ')} and ${words.at(-1)}`
}

function gigabytes(bytes: number): string {
  return `${(bytes / 1e9).toFixed(2)} GB`
}
