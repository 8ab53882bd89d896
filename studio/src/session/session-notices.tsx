import { Button } from '../widgets/button.tsx'
import { Notice } from '../widgets/notices/notice.tsx'
import { saveToFile } from './session-files.ts'
import { beginSession, sessionNote, sessionProblem } from './sessions.ts'

/** What a person must know about the session, with the way on. */
export function SessionNotices() {
  const [problem, note] = [sessionProblem.value, sessionNote.value]
  return (
    <>
      {problem !== null && (
        <Notice
          tone="error"
          actions={
            <>
              <Button icon="download" onClick={() => void saveToFile()}>
                Save to a file
              </Button>
              <Button onClick={() => void beginSession(true)}>Start a new session</Button>
            </>
          }
        >
          {problem}
        </Notice>
      )}
      {note !== null && (
        <Notice
          tone="error"
          actions={
            <Button
              onClick={() => {
                sessionNote.value = null
              }}
            >
              Close
            </Button>
          }
        >
          {note}
        </Notice>
      )}
    </>
  )
}
