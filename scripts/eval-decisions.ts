import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { LookoutClient } from '../src/client/client.ts'
import { askExamples } from '../src/commands/calibrating/ask-examples.ts'
import { readLines, toExample } from '../src/commands/calibrating/examples.ts'
import {
  CALIBRATED_TYPES,
  type CalibratedType,
  type Judged,
  qualityOf,
  type Temperatures,
  tempered,
} from '../src/commands/calibrating/judged.ts'
import { fitTemperatures } from '../src/commands/calibrating/temperature.ts'
import { type Evaluation, MODEL } from './evaluation.ts'

const WORLDS = ['plain', 'shifted'] as const
/** Greatest expected calibration errors of the shipped model. */
const GOALS = { plain: 0.03, shifted: 0.06 } as const

/**
 * Asks typed questions about new pictures of the plain and of the shifted world, and prints how good the probabilities are.
 * With `--fit`, temperatures are fitted first, on other pictures, and applied here instead of the card's.
 * @returns an exit code.
 */
export async function evaluateDecisions({ url, key, args, train }: Evaluation): Promise<number> {
  const { pictures, shifted, fit } = parseArgs({
    args: [...args],
    options: {
      pictures: { type: 'string', default: '150' },
      shifted: { type: 'string', default: '150' },
      fit: { type: 'string', default: '0' },
    },
  }).values
  const folder = await mkdtemp(join(tmpdir(), 'lookout-decisions-'))
  try {
    const sizes = ['--pictures', pictures, '--shifted', shifted, '--fit', fit]
    const code = await train(['decisions', '--output', folder, ...sizes])
    if (code !== 0) return code
    const isFitting = Number(fit) > 0
    const client = new LookoutClient({ url, key })
    const ask = async (name: string) => {
      const examples = (await readLines(join(folder, name))).map(toExample)
      return askExamples(examples, { client, model: MODEL, calibrated: !isFitting })
    }
    const temperatures = isFitting ? fitTemperatures(await ask('fit-plain')) : null
    for (const world of WORLDS) {
      if (Number(world === 'plain' ? pictures : shifted) === 0) continue
      print(`\n${report(world, await ask(`check-${world}`), temperatures)}`)
    }
    if (temperatures !== null) print(`\nFor the card: "decision": ${JSON.stringify({ temperature: temperatures })}`)
    return 0
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** By type, and below it by task. With temperatures there is a column for the error without them. */
function report(world: (typeof WORLDS)[number], asked: readonly Judged[], temperatures: Temperatures | null): string {
  const line = (name: string, judged: readonly Judged[]) => {
    const fitted = temperatures === null ? judged : temperedByType(judged, temperatures)
    const { questions, accuracy, brier, ece } = qualityOf(fitted)
    const before = temperatures === null ? [] : [qualityOf(judged).ece.toFixed(3)]
    return [name, String(questions), accuracy.toFixed(3), brier.toFixed(3), ...before, ece.toFixed(3)]
  }
  const rows = CALIBRATED_TYPES.flatMap((type) => {
    const ofType = asked.filter((one) => one.type === type)
    const tasks = Map.groupBy(ofType, ({ name }) => name ?? '')
    const whole = line(`**${type}**`, ofType)
    const verdict = Number(whole.at(-1)) <= GOALS[world] ? 'pass' : 'FAIL'
    return [[...whole, verdict], ...[...tasks].map(([task, judged]) => [...line(task, judged), ''])]
  })
  const before = temperatures === null ? [] : ['ECE at temperature 1']
  const head = [`${world} world`, 'n', 'accuracy', 'Brier', ...before, 'ECE', `at most ${GOALS[world]}`]
  return [head, head.map((_, column) => (column === 0 ? '---' : '---:')), ...rows]
    .map((cells) => `| ${cells.join(' | ')} |`)
    .join('\n')
}

function temperedByType(judged: readonly Judged[], temperatures: Temperatures): readonly Judged[] {
  const byType = Map.groupBy(judged, ({ type }): CalibratedType => type)
  return [...byType].flatMap(([type, ofType]) => tempered(ofType, temperatures[type]))
}

function print(text: string): void {
  process.stdout.write(`${text}\n`)
}
