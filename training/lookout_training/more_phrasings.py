"""More ways to ask, for training only. The evaluation keeps its own list of seen phrasings.

No list covers all that people say, but the more phrasings the model is trained on, the better it understands others.
Placeholders as in `phrasings`.
"""

from __future__ import annotations

CAPTION = """
What have we got in this {picture}?
Give me an overview of the {picture}.
What would you say is in the {picture}?
Explain the {picture} to me.
Put the {picture} into words.
What is going on in the {picture}?
Tell me all that you see.
Enumerate the things in this {picture}.
What does it look like?
I can't see the {picture}. What is in it?
Say what there is in the {picture}.
What are we looking at?
Make a list of the things in the {picture}.
Report what is visible.
"""
COUNT = """
How many {many} have you got there?
What is the total of {many}?
The {picture} has how many {many}?
Number the {many} for me.
How often do you see {many}?
How many {many} were drawn?
I count the {many}. How many should I get?
Total number of {many}
How large is the number of {many}?
Let me know the number of {many}.
{many} count
Tell me: how many {many}?
Report the number of {many} in this {picture}.
"""
WHAT_AT = """
What sits {place}?
What has been drawn {place}?
Which one is {place}?
Describe what is {place}.
What would I find {place}?
I look {place}. What do I see?
Give the name of the object {place}.
Identify what is {place}.
The thing {place} is what?
"""
EXISTS = """
Could there be {one} in here?
Is there {one} among the objects?
Has the {picture} got {one}?
Has it got any {many}?
Was {one} drawn here?
Are there {many} to be found?
Would I find {one} in the {picture}?
Do any {many} occur?
Does {one} occur in the {picture}?
Do I see {one} there?
Is one of the objects {one}?
"""
SIDE = """
Which one is at the {side} border?
What is first from the {side}?
From the {side}, what comes first?
What is on the very {side}?
Go to the {side} edge. What is there?
Which of the objects is the {side}most?
Identify the {side}most object.
"""
VERTICAL = """
Which one is at the {side} border?
What is first from the {side}?
From the {side}, what comes first?
What is at the very {side} of this {picture}?
Go to the {side} edge. What is there?
Which of the objects is the {side}most?
Identify the {side}most object.
"""
RELATION = """
Can we say that the {one} is {relation} the {other}?
Do we have the {one} {relation} the {other}?
Has the {one} been drawn {relation} the {other}?
The {one} is {relation} the {other}, isn't it?
Is the place of the {one} {relation} the {other}?
True or false: the {one} is {relation} the {other}.
{relation} the {other}: is the {one} there?
"""
READ = """
What can be read here?
Spell out the text.
What is the inscription?
I can't read this. What does it say?
Which words are printed here?
Turn the {picture} into text.
What has been written there?
Convert the {picture} to text.
What reads the text?
Recognise the text.
Give all lines of text.
"""
DETECT_LIST = """
Show me where these are, with boxes: {list}
Give boxes of: {list}
I want boxes for {list}
Please box {list}
Detect all of: {list}
Objects to detect: {list}
Find and box: {list}
Classes: {list}
Find {list} in the {picture}
bbox: {list}
"""
DETECT_SENTENCE = """
Give the bounding boxes for the {many}.
Let me see the boxes of all {many}.
Where are all the {many}? Give boxes.
Frame every {one}.
Frame all {many}.
Box in the {many}.
Tell me the boxes of the {many}.
Detect any {one} you see.
List the boxes of all {many}.
Report a box for each {one}.
"""
DETECT_ALL = """
Give boxes for all you see.
Frame all objects.
Report every object with its box.
What objects are there, and where? Give boxes.
Detect whatever there is.
Show me all objects with boxes.
List all objects with bounding boxes.
Box each thing.
"""
POINT = """
Set a point on the {name}.
Where must I tap for the {name}?
Give the position of the {name} as a point.
Aim at the {name}.
Press the {name}.
Place a point at the {name}.
Hit the {name} with a point.
Show with a point where the {name} is.
"""
POINT_MANY = """
Set a point on each {one}.
Place points on the {many}.
Tap every {one}.
Give me the points of all {many}.
Show every {one} with a point.
Where are the {many}? Answer with points.
Put points on the {many}.
Aim at every {one}.
Dots on all {many}, please.
"""
HINT_LIST = """
{list}?
Show: {list}
Show me: {list}
Mark: {list}
Point to: {list}
Objects: {list}
Classes: {list}
Labels: {list}
I need: {list}
Get: {list}
Give me: {list}
Can you find these? {list}
Find {list}
Find {list} in the {picture}.
Show me {list}.
Please mark {list}.
Where are they? {list}
Things to find: {list}
What to look for: {list}
Objects of interest: {list}
Detect these: {list}
Detect these classes: {list}
Locate these objects: {list}
Locate {list}.
Count these: {list}
Everything that is one of: {list}
Is there any of these? {list}
Only these: {list}
Highlight: {list}
Select: {list}
I want {list}
"""
HINT_SENTENCE = """
Get me the {many}.
Can you show me the {many}?
Can you find all {many}?
Please find the {many}.
Would you mark every {one}?
Select all {many}.
Select every {one} in the {picture}.
any {many}
any {one}
all the {many} in the {picture}
{many}?
{article}?
Have you seen {article}?
Tell me where all {many} are.
Show where the {many} are.
In which places are {many}?
At which places do {many} stand?
Report every {one}.
List the {many}.
List all {many} that you find.
Go through the {picture} and find all {many}.
What about the {many}?
Every {one}, please.
The {many}, please.
Could you locate the {many} for me?
Detect all {many} in this {picture}.
I would like to have all {many}.
Identify the {many}.
Pick all {many}.
Pick out every {one}.
Take all {many}.
Aim at the {many}.
Tap each {one}.
Does it show {many}?
How many {many} does the {picture} have?
"""
HINT_ONE = """
Get me the {name}.
{name}?
The {name}, please.
Can you show me the {name}?
I need to know where the {name} is.
Select the {name}.
Please locate the {name}.
Aim at the {name}.
What about the {name}?
Tap the {name}.
Do you see the {name}?
Say where the {name} is.
Identify the {name}.
Pick the {name}.
Which one is the {name}?
"""
HINT_ALL = """
Everything, please.
Get all objects.
Each object in the {picture}
all of it
Report every object.
Which objects are there?
Select all objects.
Find all that there is.
What do we have here?
Show all things in the {picture}.
Pick out every object.
List every thing in the {picture}.
Give me everything.
Find what there is to find.
"""
VIDEO_MOVES = """
Towards which side does the {name} move?
Does the {name} go left, right, up or down?
The {name} moves in which direction?
Left, right, up or down: how does the {name} move?
To which side does the {name} travel?
What way does the {name} take?
Follow the {name}. Which direction does it go?
The {name} travels which way?
Where is the {name} moving to?
Where does the {name} move to?
Track the {name} and tell me its direction.
Describe how the {name} moves.
Describe the motion of the {name}.
What is the motion of the {name}?
Name the direction of the {name}.
The {name} is moving where?
Is the {name} moving? In which direction?
Into what direction does the {name} fly?
What direction is the {name} moving in?
The movement of the {name}?
"""
VIDEO_COUNT = """
How many {many} have been shown?
What is the number of {many} in the video?
How many {many} do you see in the video?
How many {many} come into the video?
Number of {many}?
How many {many} are there in all?
Tell me how many {many} the video has.
Count all {many}.
Over the whole video, how many {many} were there?
How many {many} did you see?
How many {many}?
"""
VIDEO_CAPTION = """
Tell me about the video.
Retell the video.
What takes place in the video?
What is to be seen in this video?
Explain what happens.
What goes on in this clip?
Give a description of the video.
Which things appear, and when?
"""
VIDEO_FIRST = """
What do we see at the start?
Which object is there at the beginning?
With what does the video begin?
Which one comes before all others?
What shows up first?
"""
VIDEO_LAST = """
What is there at the end?
Which one is seen at the end?
With what does the video end?
Which object goes away last?
What do we see in the end?
"""
CHART_EXTREME = """
Which bar has the {extreme} size?
Show me the {extreme} bar by name.
Say which bar is the {extreme}.
Do you see the {extreme} bar? Which is it?
What bar is {extreme}?
"""
CHART_COMPARE = """
Can we say that the {one} is {longer} than the {other}?
Is the {one} really {longer} than the {other}?
Yes or no: the {one} is {longer} than the {other}.
The {one} is {longer} than the {other}, right?
Check if the {one} is {longer} than the {other}.
"""
CHART_COUNT = """
How many bars has it got?
The chart has how many bars?
How many bars were drawn?
Give the number of bars.
Count all bars in the chart.
"""
CHART_VALUE = """
Which number belongs to the {name}?
The {name} has which value?
What does the {name} show?
Give me the number at the {name}.
How high is the value of the {name}?
What is the number of the {name}?
"""
CHART_LABEL = """
The {name} has which label?
Which letter belongs to the {name}?
What is written below the {name}?
Give the label of the {name}.
How is the {name} called?
"""
# Small talk; the keys are the first phrasings in `chat`.
TALK: dict[str, tuple[str, ...]] = {
    first: tuple(lines.split("|"))
    for first, lines in {
        "Hello": "Good to see you|Hello to you|Greetings!|Hello my friend|Hi Lookout, nice to see you|Morning!|Evening|Hi, how can you help?|Salut|Hey you|Good day to you|Hello from me|Howdy!|Yo",
        "Who are you?": "Which program is this?|Are you a person?|Are you a machine?|Tell me your name.|May I know who you are?|What sort of AI are you?|So who are you?|Is this Lookout?|Give me your name.|"
        "I would like to know who you are.|What should I call you?|Do I talk to a human?|Could you say something about yourself?|Name yourself.|What am I talking to?|Who is answering me?|Are you GPT?|Say something about yourself.",
        "What can you do?": "In what can you help me?|What do you offer?|What may I ask?|How can you be useful?|Is there something you can do for me?|What works with you?|Show me what you can do.|What are you made for?|"
        "Which questions can you answer?|What kind of help do you give?|I need help.|What is possible?|What would you be able to do?|Explain what you can do.|What are you capable of?|Name your skills.|Which jobs do you do?",
        "What can you not do?": "What is too hard for you?|What is impossible for you?|Which things are too difficult?|What goes wrong with you?|Where are your limits?|What should I not ask?|Are photos hard for you?|What do you get wrong?|"
        "What are your faults?|When do you fail?|Is there something you cannot do?|Do you have limits?|Which questions are too hard?|What do you not know?|Can I give you photographs?|How bad are you at photos?",
        "Thank you!": "Thank you for your help.|Thanks, friend|Cheers|Nice, thanks|That helped, thank you.|Well done, thanks!|I thank you.|Thank you, that is good.|Much obliged|Great, thanks a lot",
        "Bye": "I have to go now.|Good bye for now|Have a nice day|So long|Take care|I must leave. Bye!|That is all, bye|Until tomorrow|Cheerio|See you tomorrow",
        "How are you?": "How do things stand with you?|Are you in good health?|Do you feel well?|All good with you?|How was your day?|How are you feeling?|You okay?|Are you happy?|What's up?|Hope you are well?",
        "Tell me a joke.": "Give me some advice on money.|Recommend a book.|Which film should I see?|What is two plus two?|Plan my holiday.|Who wrote Hamlet?|Is there life on Mars?|Write me a letter.|Why is the sky blue?|"
        "How old is the earth?|What do you think about war?|Convert dollars to euros.|Play chess with me.|What should I eat?|Solve this riddle.|Which day is today?|How tall is the tower?|Give me a recipe.|Speak French.",
        "Say yes.": "Please answer yes.|Could you say yes?|Now say yes.|I want to hear yes.|Write yes.|Tell me yes.|Give me a yes.",
        "Say hello.": "Now say hello.|Write hello.|I want to hear a hello.|Could you say hello?|Tell me hello.|Say hello to us.|Give me a hello.",
        "ping": "hello?|Anybody home?|Do you read me?|Are you awake?|Can you read this?|Are you up?|one two three|Just testing|Is it on?|Are you running?|Do you hear me?|check check",
    }.items()
}
