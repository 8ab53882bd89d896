import { expect, test, vi } from 'vitest'

/** What the module of session locks has. */
interface Tab {
  holdSession(id: string): Promise<boolean>
  holdNewSession(id: string): Promise<void>
}

/** A tab of the Studio, with a module of its own. */
const openTab = (name: string): Promise<Tab> => import(`../studio/src/session/session-lock.ts?${name}`)

test('without locks, a tab that is asked for two sessions at once holds the one that it shows', async () => {
  // Plain HTTP from another machine.
  vi.stubGlobal('navigator', {})
  const [one, other] = [await openTab('one'), await openTab('other')]
  await one.holdNewSession('new')
  expect(await other.holdSession('new')).toBe(false)
  expect(await Promise.all([one.holdSession('first'), one.holdSession('second')])).toEqual([true, true])
  const outcomes = ['new', 'first', 'second'].map((id) => other.holdSession(id))
  expect(await Promise.all(outcomes)).toEqual([true, true, false])
})
