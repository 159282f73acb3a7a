#include "lathe/data/demo/demo_grammar.h"

namespace lathe {

const std::string_view kDemoLexicon = R"(
city: Paris | London | Lisbon | Cairo | Nairobi | Lima | Oslo | Vienna | Prague | Dublin | Toronto | Seoul | Delhi
  | Boston | Chicago | Madrid | Athens | Warsaw | Havana | Sydney | Naples | Hamburg | Kyoto | Zagreb
country: France | Peru | Kenya | Norway | Japan | Brazil | India | Egypt | Canada | Chile | Spain | Iceland | Turkey
  | Greece | Vietnam | Mexico | Poland | Morocco | Finland | Cuba | Nepal | Ghana
river: Nile | Rhine | Danube | Amazon | Ganges | Thames | Volga | Seine | Mekong | Congo | Tiber | Elbe
mountain: Everest | Kilimanjaro | Etna | Fuji | Olympus | Vesuvius | Denali | Elbrus | Snowdon | Ararat
animal: horse | elephant | eagle | wolf | tiger | whale | salmon | spider | turtle | camel | owl | fox | bee | dolphin
  | goat | penguin | raven | lizard | rabbit | swan
living: animal | bird | fish | tree | plant | insect | snake | flower
food: bread | cheese | rice | honey | soup | chocolate | butter | pasta | wine | coffee | tea | sugar | pepper
machine: engine | clock | telescope | printer | compass | battery | radio | windmill | telephone | camera | pump
  | turbine | lathe | bicycle | piano | elevator | microscope | thermometer
substance: iron | gold | water | salt | glass | copper | steam | ice | silver | mercury | oxygen | paper | rubber | coal
work: novel | opera | song | poem | symphony | film | play | ballad | story
sport: football | tennis | chess | hockey | cricket | rowing | boxing | golf | cycling | swimming
person: painter | queen | inventor | captain | poet | doctor | engineer | explorer | king | composer | teacher
  | farmer | sailor | president | scientist | singer | pilot | writer | architect | nurse
place: city | town | country | island | valley | harbour | lake | desert | province | village | port | region
home: city | town | country | village | province | port | region | capital
area: country | island | province | region | desert
object: tool | instrument | material | stone | metal | drink | fruit | dish | toy | weapon | coin | boat
taste: colour | sport | language | drink | game | fruit | dish | instrument | food
phenomenon: a rainbow | thunder | an eclipse | fog | rust | a fever | lightning | frost | an earthquake | a tornado
  | a flood | an avalanche
word: solstice | quarantine | democracy | gravity | inflation | photosynthesis | irony | erosion | monarchy | algebra
  | evolution | friction | nostalgia | magnetism
acronym: NASA | DNA | BBC | UNESCO | NATO | GDP | FBI | IBM | USA | ATM | PIN | PDF | HTML | CPU | RAM | LED | RSVP | UFO
  | CEO | FAQ | GPS | WWW | UNICEF | DIY | SOS | VIP | MRI | USB | AWOL | RADAR
phrase: world health organization | north atlantic treaty organization | gross domestic product
  | random access memory | light emitting diode | personal computer | doctor of philosophy | automated teller machine
  | global positioning system | chief executive officer | central processing unit | universal serial bus
  | limited company | ultraviolet light | post office box | master of arts | pounds per square inch | anno domini
field: medicine | banking | the army | computing | politics | music | law | chemistry | the navy | school
parts: legs | teeth | wings | bones | eyes | hearts | toes | horns
pieces: islands | bridges | rivers | provinces | towers | railways | hospitals | libraries | schools
habit: sleep in winter | hunt at night | change its colour | swim to the north | build a nest | live in a group
deed: built the first $machine | wrote a famous $work | crossed the $river | climbed $mountain | sailed to $country
  | discovered the source of the $river | won the $sport cup | designed the tower of $city | ruled $country
  | sang in the opera of $city | painted the harbour of $city | walked from $city to $city
)";

const std::string_view kDemoTrainTemplates = R"(
[abbreviation]
What does $acronym stand for?
What does $acronym stand for in $field?
What does the abbreviation $acronym mean?
What is the abbreviation for $phrase?
What is the acronym for $phrase in $field?
What is $acronym short for?
What do the letters $acronym stand for?
What is the full form of $acronym in $field?
How do you abbreviate $phrase?
How is $phrase abbreviated in $country?
What words is $acronym made of?
Which letters are used for $phrase?
What is the short form of $phrase?
When people in $country say $acronym, what do the letters mean?
In $country, how do you abbreviate $phrase?
Tell me what words $acronym is made of.
Name the short form of $phrase.

[description]
What is $word?
What does $word mean?
What is the meaning of $word in $field?
What is the definition of $word?
Can you explain what $word is?
How would you describe a $animal?
Why does $phenomenon happen?
What causes $phenomenon?
What happens during $phenomenon?
What was the cause of the war in $country?
How does a $machine work?
How can a $machine help the $person?
What is the difference between $substance and $substance?
What is a $machine used for?
Why does the $animal $habit?
How is $substance made?
How do you make $food in $country?
What is the origin of the word $word?
What is the history of $sport in $country?
Tell me about the life of the $person.
Why did the $person leave $city?
For what reason did the $person leave $country?
How did the $person die?
How did the $person who $deed become famous?
What is the purpose of a $machine?
Why is $substance important for $country?
Why do people need $substance?
Do you know how a $machine works?
In $country, how do you make $food?
In $field, what is a $machine used for?
Tell me why the $person left $country.
Name the cause of $phenomenon.

[thing]
What $object is found in $country?
What $object is made of $substance?
Which $object comes from $city?
Which $taste did the $person like best?
What colour is the flag of $country?
What colour is a $animal?
What language is spoken in $country?
Which language do people speak in $city?
Which $living is the symbol of $city?
What kind of $living is the $animal?
What is the name of the $object that the $person discovered?
What is the favourite $taste of the $person?
What does the $animal eat?
What food do people eat in $country?
What is the largest $living in $country?
Name a $object that is used in $field.
Name the $living that can $habit.
What $work did the $person write?
What is the name of the $work about $city?
What metal is a $machine made of?
What did the $person who $deed eat?
Which $machine did the $person from $city use?
In $city, what do people eat?
Which metal is found in $country?
Which $object is used in $field?
Name the best $taste in $city.
Name the $living that the $person discovered in $country.
Tell me what the $animal eats.
Tell me which $taste the $person likes.

[person]
Who $deed?
Who was the first $person of $country?
Who was the $person that $deed?
Which $person $deed?
What $person $deed?
What is the name of the $person who $deed?
Who is the $person in the $work about $city?
Who wrote the $work about the $animal?
Name the $person who $deed.
What was the name of the $person from $country?
Which $person was born in $city?
Who invented the $machine?
Who discovered $substance in $country?
By whom was the $work about $city written?
Whose $animal won the race in $city?
Which company makes the best $machine?
What company in $country makes $food?
What team won the $sport cup in $country?
Who is the most famous $person in $city?
In $city, which $person is the most famous?
Name the most famous $person of $country.
Tell me the name of the $person from $city.
Who was the first that $deed?

[place]
Where is $city?
Where is the $river?
Where was the $person born?
Where was the $person who $deed born?
Where does the $animal live?
What is the capital of $country?
Which $place is near $city?
In which $area is $mountain?
What $place does the $river flow through?
What is the largest $place in $country?
Where can I see a $animal?
Which $place has the most $pieces?
Where was the first $machine built?
What is the name of the $home where the $person lived?
Which $place did the $person sail to?
Name the $home where the $work was written.
Where does $food come from?
Where do people find $substance in $country?
In what $home did the $person build a $machine?
From which $home did the $person come?
In $country, where do people find $substance?
Name the capital of $country.
Tell me where $food comes from.
To what $place does the $river flow?

[number]
How many $parts does a $animal have?
How many people live in $city?
How many $pieces does $country have?
How many players are there in a $sport team?
How many years did the war in $country last?
How far is $city from $city?
How long is the $river?
How high is $mountain?
How tall was the $person who $deed?
How old is the $person?
When was the $machine invented?
When did the $person die?
In what year was the $work about $city written?
What year did $country win the $sport cup?
What is the population of $country?
What is the price of $food in $city?
How much does a $machine cost?
How much $food do people eat in $country?
At what temperature does $substance melt?
What is the speed of a $animal?
What is the average age of a $person?
What is the average height of a $living?
What is the length of a $sport field?
How fast can a $animal run?
What percentage of people in $country speak the language?
How often does $phenomenon happen?
In $country, how long did the war last?
Tell me how old the $person is.
Name the year when the $machine was invented.
What is the height of the tower of $city?
At what speed can a $animal run?
At what age does a $person become famous?
)";

const std::string_view kDemoHeldoutTemplates = R"(
[abbreviation]
The letters $acronym are short for what?
What words do the letters $acronym stand for?
In $field, what does the abbreviation $acronym stand for?
What is $phrase abbreviated to?
Which letters stand for $phrase?
What full form does the abbreviation $acronym have?
Which abbreviation is used for $phrase?
In $field, what do the letters $acronym mean?

[description]
How would you explain $word?
How would you explain $phenomenon?
What is the reason for $phenomenon?
What does the word $word mean in $field?
What is the purpose of $word?
Why did the $person who $deed leave $country?
What is $substance used for in $field?
How is a $machine made?
What is the cause of $phenomenon in $country?
Why does a $machine need $substance?
Can you describe how a $machine works?
Tell me about the history of $food.

[thing]
In $country, what is the largest $living?
What food does the $animal eat in $country?
Which $taste does the $person from $city like?
What $living is the symbol of $country?
What is the colour of a $animal?
What language does the $person speak?
Which metal is used in a $machine?
What is the name of the $work that the $person from $country wrote?
What is the best $taste in $country?
Name the favourite $taste of the $person who $deed.

[person]
In $country, who $deed?
By whom was the $machine invented?
What was the name of the first $person who $deed?
The $work about $country was written by whom?
Which $person from $country $deed?
Which famous $person $deed?
What company in $city makes the $machine?
Tell me who $deed.
Name the first $person that $deed.

[place]
Where in $country is the $river?
In what $home was the $person born?
What $place is the capital of $country?
From where does $substance come?
Where did the $person see the $animal?
Through which $place does the $river flow?
What is the name of the $home near $mountain?
Where would I find a $machine in $country?
To which $place did the $person who $deed sail?
Name the largest $place in $country.

[number]
How many $pieces are there in $city?
How many years did the $person live in $city?
In what year did the $person die?
How much is a $machine in $country?
What is the height of $mountain?
What year was the $person from $country born?
When was the first $work about a $animal written?
What is the length of the $river in $country?
What is the population of $city?
How fast is a $animal?
At what age did the $person leave $country?
How long did the $person who $deed live?
)";

}  // namespace lathe
