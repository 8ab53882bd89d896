import { useSignal } from '@preact/signals'
import { useRef } from 'preact/hooks'
import { Button } from '../widgets/button.tsx'
import { download } from '../widgets/download.ts'
import { Notice } from '../widgets/notices/notice.tsx'
import { UndoNotice, type UndoStep } from '../widgets/notices/undo-notice.tsx'
import { asked } from './decide.ts'
import { readQuestionFile, writeQuestionFile } from './question-file.ts'
import { questions, replaceQuestions } from './questions.ts'

/** Adds a question; opens and saves files of questions. */
export function QuestionTools() {
  const input = useRef<HTMLInputElement>(null)
  const problem = useSignal<string | null>(null)
  const undoSteps = useSignal<readonly UndoStep[]>([])
  const open = async (file: File) => {
    problem.value = null
    try {
      const opened = readQuestionFile(await file.text())
      const before = questions.all.value
      const undo = () => {
        questions.all.value = before
      }
      undoSteps.value = asked.value.length === 0 ? [] : [{ said: `${file.name} replaced your questions.`, undo }]
      replaceQuestions(opened)
    } catch (error) {
      problem.value = `${file.name} has no questions that the page can show. ${(error as Error).message}`
    }
  }
  return (
    <>
      <UndoNotice steps={undoSteps} />
      <div class="look-add">
        <Button
          icon="plus"
          kind="quiet"
          disabled={questions.all.value.length >= questions.most}
          onClick={() => questions.add(questions.all.value.at(-1)!.id)}
        >
          Add a question
        </Button>
        <input
          ref={input}
          type="file"
          class="hidden"
          accept=".json,application/json"
          aria-label="File of questions"
          tabIndex={-1}
          onChange={async ({ currentTarget }) => {
            const [file] = currentTarget.files ?? []
            if (file) await open(file)
            currentTarget.value = ''
          }}
        />
        <Button
          icon="folder"
          kind="quiet"
          title="Open questions as JSON, in the format of lookout decide"
          onClick={() => input.current?.click()}
        >
          Open
        </Button>
        {asked.value.length > 0 && (
          <Button
            icon="download"
            kind="quiet"
            title="Save the questions in the format of lookout decide"
            onClick={() =>
              download(new Blob([writeQuestionFile(asked.value)], { type: 'application/json' }), 'questions.json')
            }
          >
            Save
          </Button>
        )}
      </div>
      {problem.value && <Notice tone="error">{problem.value}</Notice>}
    </>
  )
}
