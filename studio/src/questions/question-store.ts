import { type Signal, signal } from '@preact/signals'
import { newId } from '../new-id.ts'

export interface Question {
  readonly id: string
  readonly text: string
}

/** Questions in order; at least one, which may be empty. */
export class QuestionStore<Asked extends Question> {
  readonly all: Signal<readonly Asked[]>
  /** What the server takes in one call. */
  readonly most: number
  readonly #make: (question: Question, before: Asked | undefined) => Asked

  /** @param make completes a question that is added behind another. */
  constructor(most: number, make: (question: Question, before: Asked | undefined) => Asked) {
    this.most = most
    this.#make = make
    this.all = signal([this.#new('')])
  }

  change(id: string, change: Partial<Omit<Asked, 'id'>>): void {
    this.all.value = this.all.value.map((one) => (one.id === id ? { ...one, ...change } : one))
  }

  /** Adds an empty question after another, or at the end. @returns its id; null when there are as many as can be. */
  add(after: string | null = null): string | null {
    const all = this.all.value
    if (all.length >= this.most) return null
    const index = all.findIndex(({ id }) => id === after)
    const at = index === -1 ? all.length : index + 1
    const added = this.#new('', all[at - 1])
    this.all.value = all.toSpliced(at, 0, added)
    return added.id
  }

  remove(id: string): void {
    const left = this.all.value.filter((one) => one.id !== id)
    this.all.value = left.length > 0 ? left : [this.#new('')]
  }

  /** @param to the new place; it is brought into the list. */
  move(id: string, to: number): void {
    this.all.value = moved(
      this.all.value,
      this.all.value.findIndex((one) => one.id === id),
      to,
    )
  }

  /** Puts others in place of all questions. */
  replace(texts: readonly string[]): void {
    this.all.value = texts.slice(0, this.most).map((text) => this.#new(text))
  }

  /**
   * Puts lines into the list: into a question if it is empty, and after it.
   * @returns how many did not fit.
   */
  insertLines(id: string, lines: readonly string[]): number {
    const all = this.all.value
    const index = all.findIndex((one) => one.id === id)
    const own = all[index]!
    const isEmpty = own.text.trim() === ''
    const room = this.most - all.length + (isEmpty ? 1 : 0)
    const added = lines.slice(0, room).map((text, i) => (isEmpty && i === 0 ? { ...own, text } : this.#new(text, own)))
    if (added.length > 0) this.all.value = all.toSpliced(isEmpty ? index : index + 1, isEmpty ? 1 : 0, ...added)
    return lines.length - added.length
  }

  #new(text: string, before?: Asked): Asked {
    return this.#make({ id: newId(), text }, before)
  }
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
