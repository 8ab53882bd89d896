import { signal } from '@preact/signals'
import { newId } from '../new-id.ts'

export interface Question {
  readonly id: string
  readonly text: string
}

/** What the server takes in one call. */
export const MOST_QUESTIONS = 16

/** The questions in order; at least one, which may be empty. */
export const questions = signal<readonly Question[]>([blank()])

export function setText(id: string, text: string): void {
  questions.value = questions.value.map((one) => (one.id === id ? { id, text } : one))
}

/** Adds an empty question after another, or at the end. @returns its id; null when there are as many as can be. */
export function addQuestion(after: string | null = null): string | null {
  if (questions.value.length >= MOST_QUESTIONS) return null
  const added = blank()
  const index = questions.value.findIndex(({ id }) => id === after)
  questions.value = questions.value.toSpliced(index === -1 ? questions.value.length : index + 1, 0, added)
  return added.id
}

export function removeQuestion(id: string): void {
  const left = questions.value.filter((one) => one.id !== id)
  questions.value = left.length > 0 ? left : [blank()]
}

/** @param to the new place; it is brought into the list. */
export function moveQuestion(id: string, to: number): void {
  questions.value = moved(
    questions.value,
    questions.value.findIndex((one) => one.id === id),
    to,
  )
}

export function replaceQuestions(texts: readonly string[]): void {
  questions.value = texts.slice(0, MOST_QUESTIONS).map((text) => ({ id: newId(), text }))
}

/**
 * Puts lines into the list: into a question if it is empty, and after it.
 * @returns how many did not fit.
 */
export function insertLines(id: string, lines: readonly string[]): number {
  const index = questions.value.findIndex((one) => one.id === id)
  const own = questions.value[index]!
  const isEmpty = own.text.trim() === ''
  const room = MOST_QUESTIONS - questions.value.length + (isEmpty ? 1 : 0)
  const added = lines.slice(0, room).map((text, i) => ({ id: isEmpty && i === 0 ? id : newId(), text }))
  if (added.length > 0) {
    questions.value = questions.value.toSpliced(isEmpty ? index : index + 1, isEmpty ? 1 : 0, ...added)
  }
  return lines.length - added.length
}

/** The lines of a text that say something, without the bullets or numbers of a list. */
export function linesOf(text: string): string[] {
  return text
    .split(/\r\n|\r|\n/)
    .map((line) => line.replace(/^\s*(?:[-*•–]|\d{1,3}[.)])\s+/, '').trim())
    .filter((line) => line !== '')
}

/** A list with one item elsewhere. */
export function moved<Item>(list: readonly Item[], from: number, to: number): readonly Item[] {
  const item = list[from]
  const place = Math.min(Math.max(0, to), list.length - 1)
  if (item === undefined || place === from) return list
  return list.toSpliced(from, 1).toSpliced(place, 0, item)
}

function blank(): Question {
  return { id: newId(), text: '' }
}
