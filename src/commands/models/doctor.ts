import { type Config, ConfigError } from '../../config/config.ts'
import { examine, IMAGES } from '../../doctor/examination.ts'
import { type Finding, isIll, overall } from '../../doctor/finding.ts'
import { ended, newExamination, withFindings } from '../../doctor/keep.ts'
import { servableCard, startEngine } from '../../inference/engines/engines.ts'
import type { ModelCard, ReadCard, ServedId } from '../../models/card.ts'
import { lackingEncoder } from '../../models/derive/lacking-encoder.ts'
import { type KeptExamination, keepExamination } from '../../models/kept-examination.ts'
import { modelHeaders } from '../../models/read/model-headers.ts'
import { findStoredCards } from '../../models/stored-cards.ts'
import type { Command } from '../command.ts'
import { forTerminal } from '../for-terminal.ts'
import { loadConfig } from '../load-config.ts'
import { readOptions } from '../options.ts'
import { printTable, wrap } from '../output.ts'
import { SETTINGS_HELP } from '../settings-help.ts'
import { warn } from '../warn.ts'
import { examineInstallation } from './installation.ts'
import { findKnownCard, readKnownCards } from './known-models.ts'
import { NO_MODEL } from './no-model.ts'

export const doctor: Command = {
  help: `Usage: lookout doctor [MODEL] [--images N] [--json]

Reports what is installed and what is missing. Then it loads a model, asks it about images that it draws itself, and
compares what the model does with what its card promises: its encoders, the chat template, whether it sees, its coordinates
and how accurate they are, tools, thoughts, JSON schemas, whether the same prompt gets the same answer, its speed, and how
much of it runs on GPUs. Exits with code 1 if a check failed, or if answers are no better than chance. lookout models shows
the results of a model that was pulled or added.

  MODEL       the id of a model, a model card, a folder with one, or a GGUF file [the first model]
  --images N  how many images to ask about, ${IMAGES.fewest} to ${IMAGES.most} [${IMAGES.default}]
  --json      a JSON object instead of a table

${SETTINGS_HELP}`,
  async run(args) {
    const options = { images: { type: 'string' }, json: { type: 'boolean' } } as const
    const { values, positionals } = readOptions(args, options, [], ['MODEL'])
    const images = readImages(values.images)
    const config = await loadConfig()
    const installation = examineInstallation(config)
    const named = await findModel(config, positionals[0])
    const ofModel: Finding[] = []
    if (named !== null) {
      const begun = await newExamination(named.card.file)
      for await (const finding of examineModel(named, config, images)) ofModel.push(finding)
      await keep(named, begun, ofModel, config)
    }
    const findings = [...installation, ...ofModel]
    if (values.json) printReport(named, findings)
    else showReport(named, findings)
    if (named === null) warn(NO_MODEL)
    if (named === null || isIll(findings)) process.exitCode = 1
  },
}

async function* examineModel({ card, served, read }: NamedModel, { backend }: Config, images: number) {
  const lacking = await lackingEncoder(
    { ...read.card, written: read.written },
    modelHeaders(read.card.engine, read.card),
  )
  if (lacking !== null) {
    yield { check: 'files', verdict: lacking.isPromised ? 'failed' : 'warning', finding: lacking.message } as const
  }
  progress(`loading ${served.id}`)
  const engine = await startEngine(card, { seed: 1, backend }).catch((error: Error) => error)
  if (engine instanceof Error) {
    progress('')
    yield { check: 'load', verdict: 'failed', finding: engine.message } as const
    return
  }
  try {
    for await (const finding of examine({ card, served, engine, images })) {
      progress(finding.check)
      yield finding
    }
  } finally {
    await engine.close()
  }
  progress('')
}

/** Stores the findings of a stored model beside its card. */
async function keep(
  { card: { file } }: NamedModel,
  begun: KeptExamination,
  findings: readonly Finding[],
  { modelStore }: Config,
) {
  if (!(await findStoredCards(modelStore)).cards.has(file)) return
  await keepExamination(file, ended(withFindings({ ...begun, unchecked: [] }, findings), 'done')).catch(
    (error: Error) => warn(`The findings were not saved: ${error.message}`),
  )
}

function printReport(named: NamedModel | null, findings: readonly Finding[]): void {
  const about = named && { model: named.served.id, card: named.card.file, overall: overall(findings) }
  const ok = named !== null && !isIll(findings)
  const report = { ...(about ?? { model: null, card: null, overall: null }), ok, findings }
  process.stdout.write(`${JSON.stringify(report, null, 2)}\n`)
}

function showReport(named: NamedModel | null, findings: readonly Finding[]): void {
  if (named !== null) process.stdout.write(`${named.served.id} (${named.card.file})\n\n`)
  printTable(['check', 'verdict', 'finding'], findings.flatMap(rowsOf))
  if (named !== null) process.stdout.write(forTerminal(`\n${overall(findings)}\n`))
}

interface NamedModel {
  /** The card as read, including parts that this machine cannot run. */
  readonly read: ReadCard
  readonly card: ModelCard
  readonly served: ServedId
}

/** The named model, or the first by default; null if there is none. @throws ConfigError when no model has the name. */
async function findModel(config: Config, name: string | undefined): Promise<NamedModel | null> {
  const known = name === undefined ? (await readKnownCards(config))[0] : await findKnownCard(name, config)
  if (known === undefined) return null
  // The findings of the installation say what this machine lacks.
  const card = servableCard(known.card, () => {})
  const served = card.serves.find(({ id, aliases }) => name !== undefined && [id, ...aliases].includes(name))
  return { read: known, card, served: served ?? card.serves[0]! }
}

function readImages(text: string | undefined): number {
  if (text === undefined) return IMAGES.default
  const count = Number(text)
  if (/^\d+$/.test(text) && count >= IMAGES.fewest && count <= IMAGES.most) return count
  throw new ConfigError(`--images: expected a number from ${IMAGES.fewest} to ${IMAGES.most}, not '${text}'`)
}

const FINDING_WIDTH = 84

/** Breaks a finding into lines, of which only the first has a name. */
function rowsOf({ check, verdict, finding }: Finding): string[][] {
  return wrap(forTerminal(finding), FINDING_WIDTH).map((line, i) => (i === 0 ? [check, verdict, line] : ['', '', line]))
}

/** Prints a line on a terminal that replaces the last one. */
function progress(text: string): void {
  if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K${text}`)
}
