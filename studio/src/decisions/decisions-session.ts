import { readFacts } from '../multilook/look-facts.ts'
import { keepInSessions } from '../session/registry.ts'
import { finiteOf, listOf, numberOf, orNull, recordOf, textOf } from '../session/shape.ts'
import type { Answer, Decided } from './answer.ts'
import { context, decided, facts, forgetAnswers } from './decide.ts'
import { QUESTION_TYPES, type QuestionContent, questions, replaceQuestions } from './questions.ts'

keepInSessions({
  name: 'decisions',

  save() {
    if (context.value === '' && questions.all.value.every(({ text }) => text === '')) return undefined
    const list = questions.all.value.map(({ id, ...question }) => {
      const known = decided.value.get(id)
      if (known === undefined) return { question, decided: null }
      const { id: _, ...asked } = known.question
      return { question, decided: { ...known, question: asked } }
    })
    return { questions: list, context: context.value, facts: facts.value }
  },

  restore(saved) {
    forgetAnswers()
    questions.replace([''])
    context.value = ''
    if (saved === undefined) return
    const { questions: list, context: text, facts: took } = recordOf(saved)
    const read = listOf(list, (one) => {
      const { question, decided: known } = recordOf(one)
      return { question: readQuestion(question), known: orNull(known, readDecided) }
    }).slice(0, questions.most)
    const shared = textOf(text)
    const figures = orNull(took, readFacts)
    replaceQuestions(read.map(({ question }) => question))
    context.value = shared
    decided.value = new Map(
      questions.all.value.flatMap(({ id }, index): [string, Decided][] => {
        const known = read[index]?.known
        return known ? [[id, { ...known, question: { ...known.question, id } }]] : []
      }),
    )
    facts.value = figures
  },

  title: () => questions.all.value.find(({ text }) => text.trim() !== '')?.text ?? null,
})

function readQuestion(value: unknown): QuestionContent {
  const { type, text, options, max } = recordOf(value)
  const known = QUESTION_TYPES.find((one) => one.type === type)
  if (known === undefined) throw new Error('expected a type of questions')
  return { type: known.type, text: textOf(text), options: listOf(options, textOf), max: orNull(max, finiteOf) }
}

function readDecided(value: unknown) {
  const { question, answer, media, model } = recordOf(value)
  return {
    question: readQuestion(question),
    answer: readAnswer(answer),
    media: textOf(media),
    model: orNull(model, textOf),
  }
}

function readAnswer(value: unknown): Answer {
  const { kind, options, score, confidence, mass, place } = recordOf(value)
  if (kind === 'none') return { kind }
  if (kind === 'box' || kind === 'point' || kind === 'clip') {
    const numbers = orNull(place, (given) => listOf(given, numberOf))
    return { kind, place: numbers, confidence: orNull(confidence, numberOf) }
  }
  if (kind !== 'read') throw new Error('expected a kind of answers')
  const shares = listOf(options, (one) => {
    const { name, share } = recordOf(one)
    return { name: textOf(name), share: numberOf(share) }
  })
  if (shares.length === 0) throw new Error('expected options')
  return {
    kind: 'read',
    options: shares,
    score: orNull(score, numberOf),
    confidence: numberOf(confidence),
    mass: numberOf(mass),
  }
}
