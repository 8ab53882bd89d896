import { download } from '../widgets/download.ts'
import { readSessionFile } from './session-file.ts'
import { currentAsFile, openSessionFile, sessionNote } from './sessions.ts'

/** Saves the session on the page to a file. `sessionNote` says why it cannot. */
export async function saveToFile(): Promise<void> {
  try {
    const { blob, name } = await currentAsFile()
    download(blob, name)
  } catch (error) {
    sessionNote.value = (error as Error).message
  }
}

/**
 * Opens a file that a session was saved to. `sessionNote` says why it cannot.
 * @param isChosen whether the user means it to be a session; a file that was dropped may be of another use.
 * @returns false when it is none.
 */
export async function openFile(file: File, isChosen = false): Promise<boolean> {
  if (!isChosen && !/[.]json$/i.test(file.name) && file.type !== 'application/json') return false
  try {
    const session = await readSessionFile(file, file.name)
    if (session === null && !isChosen) return false
    if (session === null) sessionNote.value = `${file.name} is not a Studio session.`
    else await openSessionFile(session)
  } catch (error) {
    sessionNote.value = (error as Error).message
  }
  return true
}
