"""Word lists of the corpus: names, things with their colours, a small bilingual lexicon."""

NAMES = tuple(
    "Ann Ben Carla David Emma Felix Grace Hugo Iris Jack Kate Leo Mia Noah Olga Paul Rosa Sam Tina "  # noqa: SIM905
    "Victor Wendy Yara Alice Bob Clara Daniel Elena Frank Gina Henry Ida James Karl Laura Max Nina "
    "Oscar Petra Quinn Rita Simon Tom Uma Vera Will Xenia Yusuf Zoe Lin Ming Wei Mei Omar Lucy "
    "Anna Peter Maria John Sarah Julia Adam Eva Ivan Nora Otto Lily Mark Lisa Ali Sara".split()
)
CITIES = tuple(
    "Paris London Berlin Rome Madrid Tokyo Beijing Oslo Vienna Lisbon Cairo Boston Shanghai Dublin "  # noqa: SIM905
    "Prague Athens Warsaw Zurich Munich Seoul Lima Delhi Toronto Sydney".split()
)
JOBS = tuple(
    "doctor teacher baker pilot nurse farmer engineer singer painter driver cook writer dentist "  # noqa: SIM905
    "lawyer builder student gardener clerk".split()
)
COLORS = ("red", "blue", "green", "yellow", "black", "white", "brown", "orange", "purple", "pink",
          "grey")  # fmt: skip

LEXICON: dict[str, dict[str, str]] = {
    "animals": {
        "cat": "猫", "dog": "狗", "bird": "鸟", "fish": "鱼", "horse": "马", "cow": "牛",
        "sheep": "羊", "pig": "猪", "chicken": "鸡", "duck": "鸭子", "rabbit": "兔子",
        "tiger": "老虎", "lion": "狮子", "elephant": "大象", "monkey": "猴子", "bear": "熊",
        "snake": "蛇", "mouse": "老鼠", "panda": "熊猫", "frog": "青蛙",
    },
    "colors": {
        "red": "红色", "blue": "蓝色", "green": "绿色", "yellow": "黄色", "black": "黑色",
        "white": "白色", "brown": "棕色", "orange color": "橙色", "purple": "紫色", "pink": "粉色",
        "grey": "灰色",
    },
    "numbers": {
        "one": "一", "two": "二", "three": "三", "four": "四", "five": "五", "six": "六",
        "seven": "七", "eight": "八", "nine": "九", "ten": "十", "hundred": "百", "thousand": "千",
    },
    "food": {
        "water": "水", "tea": "茶", "coffee": "咖啡", "milk": "牛奶", "rice": "米饭",
        "bread": "面包", "egg": "鸡蛋", "apple": "苹果", "banana": "香蕉", "meat": "肉",
        "soup": "汤", "noodles": "面条", "cake": "蛋糕", "sugar": "糖", "salt": "盐",
        "orange": "橙子", "pear": "梨", "vegetable": "蔬菜", "fruit": "水果", "beer": "啤酒",
    },
    "days": {
        "Monday": "星期一", "Tuesday": "星期二", "Wednesday": "星期三", "Thursday": "星期四",
        "Friday": "星期五", "Saturday": "星期六", "Sunday": "星期日", "today": "今天",
        "tomorrow": "明天", "yesterday": "昨天",
    },
    "family": {
        "father": "父亲", "mother": "母亲", "brother": "兄弟", "sister": "姐妹", "son": "儿子",
        "daughter": "女儿", "friend": "朋友", "child": "孩子", "teacher": "老师", "student": "学生",
        "doctor": "医生", "person": "人",
    },
    "things": {
        "book": "书", "table": "桌子", "chair": "椅子", "house": "房子", "door": "门",
        "window": "窗户", "car": "汽车", "train": "火车", "bicycle": "自行车", "computer": "电脑",
        "phone": "电话", "school": "学校", "city": "城市", "street": "街道", "sun": "太阳",
        "moon": "月亮", "star": "星星", "tree": "树", "flower": "花", "mountain": "山",
        "river": "河", "sea": "海", "sky": "天空", "rain": "雨", "snow": "雪", "fire": "火",
        "time": "时间", "money": "钱", "music": "音乐", "language": "语言", "model": "模型",
    },
    "adjectives": {
        "big": "大", "small": "小", "good": "好", "bad": "坏", "fast": "快", "slow": "慢",
        "hot": "热", "cold": "冷", "new": "新", "old": "旧", "beautiful": "美丽", "happy": "高兴",
        "tall": "高", "short": "短", "long": "长", "expensive": "贵", "cheap": "便宜",
    },
    "verbs": {
        "to eat": "吃", "to drink": "喝", "to see": "看", "to listen": "听", "to speak": "说",
        "to write": "写", "to read": "读", "to go": "去", "to come": "来", "to sleep": "睡觉",
        "to buy": "买", "to love": "爱", "to learn": "学习", "to work": "工作",
    },
}  # fmt: skip

PHRASES: dict[str, str] = {
    "hello": "你好", "good morning": "早上好", "good evening": "晚上好", "good night": "晚安",
    "goodbye": "再见", "thank you": "谢谢", "you are welcome": "不客气", "please": "请",
    "sorry": "对不起", "how are you?": "你好吗？", "I am fine": "我很好", "yes": "是",
    "no": "不是", "I love you": "我爱你", "I don't know": "我不知道",
    "I don't understand": "我不明白",
    "see you tomorrow": "明天见", "what is your name?": "你叫什么名字？",
    "nice to meet you": "很高兴认识你", "how much is it?": "多少钱？",
    "where are you?": "你在哪里？",
    "what time is it?": "现在几点？", "happy birthday": "生日快乐", "happy new year": "新年快乐",
    "good luck": "祝你好运", "no problem": "没问题", "welcome": "欢迎", "wait a moment": "等一下",
    "I am hungry": "我饿了", "I am tired": "我累了", "excuse me": "不好意思", "well done": "做得好",
    "have a nice day": "祝你今天愉快", "I am a student": "我是学生", "I am a teacher": "我是老师",
    "where is the toilet?": "厕所在哪里？", "help me": "帮帮我", "of course": "当然",
    "I speak English": "我说英语", "I speak Chinese": "我说中文", "it is raining": "下雨了",
}  # fmt: skip

SUBJECTS = {"I": "我", "you": "你", "we": "我们", "they": "他们", "he": "他", "she": "她"}
VERBS = {"like": "喜欢", "want": "想要", "have": "有", "see": "看见", "buy": "买", "need": "需要"}
OBJECTS = {
    "cats": "猫", "dogs": "狗", "tea": "茶", "coffee": "咖啡", "water": "水", "apples": "苹果",
    "books": "书", "music": "音乐", "bread": "面包", "milk": "牛奶", "rice": "米饭",
    "flowers": "花", "fish": "鱼", "noodles": "面条", "cake": "蛋糕", "eggs": "鸡蛋",
}  # fmt: skip

OPPOSITES = {
    "big": "small", "hot": "cold", "fast": "slow", "up": "down", "good": "bad", "new": "old",
    "tall": "short", "happy": "sad", "light": "dark", "open": "closed", "full": "empty",
    "early": "late", "easy": "hard", "rich": "poor", "clean": "dirty", "loud": "quiet",
    "strong": "weak", "thick": "thin", "wet": "dry", "left": "right", "day": "night",
    "black": "white", "near": "far", "first": "last", "inside": "outside", "young": "old",
    "high": "low", "soft": "hard", "cheap": "expensive", "safe": "dangerous", "true": "false",
    "long": "short", "deep": "shallow", "wide": "narrow", "alive": "dead", "begin": "end",
}  # fmt: skip
PLURALS = {
    "cat": "cats", "dog": "dogs", "mouse": "mice", "child": "children", "man": "men",
    "woman": "women", "foot": "feet", "tooth": "teeth", "box": "boxes", "city": "cities",
    "baby": "babies", "leaf": "leaves", "knife": "knives", "fish": "fish", "sheep": "sheep",
    "bus": "buses", "book": "books", "tree": "trees", "apple": "apples", "house": "houses",
    "goose": "geese", "person": "people", "watch": "watches", "berry": "berries", "wolf": "wolves",
    "potato": "potatoes", "star": "stars", "key": "keys", "toy": "toys", "story": "stories",
}  # fmt: skip
THING_COLORS = {
    "the sky": "blue", "grass": "green", "snow": "white", "a banana": "yellow", "blood": "red",
    "coal": "black", "a lemon": "yellow", "a tomato": "red", "milk": "white", "the sea": "blue",
    "an orange": "orange", "chocolate": "brown", "a leaf": "green", "the sun": "yellow",
    "a carrot": "orange", "an elephant": "grey", "a panda": "black and white", "salt": "white",
    "a frog": "green", "a strawberry": "red", "a flamingo": "pink", "a polar bear": "white",
}  # fmt: skip
CAPITALS = {
    "France": "Paris", "Germany": "Berlin", "Italy": "Rome", "Spain": "Madrid", "Japan": "Tokyo",
    "China": "Beijing", "England": "London", "Norway": "Oslo", "Austria": "Vienna",
    "Portugal": "Lisbon", "Egypt": "Cairo", "Greece": "Athens", "Poland": "Warsaw",
    "Ireland": "Dublin", "Sweden": "Stockholm", "Finland": "Helsinki", "Denmark": "Copenhagen",
    "Russia": "Moscow", "India": "New Delhi", "Canada": "Ottawa", "Australia": "Canberra",
    "Brazil": "Brasilia", "Mexico": "Mexico City", "Peru": "Lima", "Cuba": "Havana",
    "Turkey": "Ankara", "Hungary": "Budapest", "Belgium": "Brussels", "Switzerland": "Bern",
    "South Korea": "Seoul", "Thailand": "Bangkok", "Vietnam": "Hanoi", "Kenya": "Nairobi",
    "the United States": "Washington, D.C.", "Argentina": "Buenos Aires", "Chile": "Santiago",
}  # fmt: skip
PLANETS = ("Mercury", "Venus", "Earth", "Mars", "Jupiter", "Saturn", "Uranus", "Neptune")
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September",
          "October", "November", "December")  # fmt: skip
SOUNDS = {
    "a cat": "meow", "a dog": "woof", "a cow": "moo", "a sheep": "baa", "a duck": "quack",
    "a pig": "oink", "a frog": "ribbit", "a bee": "buzz", "a rooster": "cock-a-doodle-doo",
    "a lion": "roar", "a snake": "hiss", "an owl": "hoot",
}  # fmt: skip
FACTS = {
    "How many legs does a spider have?": "A spider has eight legs.",
    "How many legs does a dog have?": "A dog has four legs.",
    "How many days are in a week?": "A week has seven days.",
    "How many months are in a year?": "A year has twelve months.",
    "How many days are in a year?": "A year has 365 days, and a leap year has 366.",
    "How many hours are in a day?": "A day has 24 hours.",
    "How many minutes are in an hour?": "An hour has 60 minutes.",
    "How many seconds are in a minute?": "A minute has 60 seconds.",
    "How many planets are there?": "There are eight planets in the solar system.",
    "How many continents are there?": "There are seven continents.",
    "How many letters are in the alphabet?": "The English alphabet has 26 letters.",
    "What is the largest planet?": "Jupiter is the largest planet.",
    "What is the smallest planet?": "Mercury is the smallest planet.",
    "Which planet is closest to the sun?": "Mercury is closest to the sun.",
    "What do bees make?": "Bees make honey.",
    "What do cows drink?": "Cows drink water.",
    "What is ice?": "Ice is frozen water.",
    "What is the largest ocean?": "The Pacific is the largest ocean.",
    "What is the highest mountain?": "Mount Everest is the highest mountain.",
    "What is the largest animal?": "The blue whale is the largest animal.",
    "What is the fastest land animal?": "The cheetah is the fastest land animal.",
    "At what temperature does water freeze?": "Water freezes at 0 degrees Celsius.",
    "At what temperature does water boil?": "Water boils at 100 degrees Celsius.",
    "Why is the sky blue?": "Air scatters blue light more than red light, so the sky looks blue.",
    "What is the moon?": "The moon is a ball of rock that circles the Earth.",
    "What is the sun?": "The sun is a star. It gives us light and warmth.",
    "What is water made of?": "Water is made of hydrogen and oxygen.",
    "Do fish sleep?": "Yes, fish rest, but they do not close their eyes.",
    "Can penguins fly?": "No, penguins cannot fly, but they swim very well.",
    "Is the Earth round?": "Yes, the Earth is almost a ball.",
    "What comes after night?": "After night comes the morning.",
    "What is a noun?": "A noun is a word for a person, a place or a thing.",
    "What is a verb?": "A verb is a word for an action, such as run or write.",
    "What is an adjective?": "An adjective describes a noun, such as big or red.",
    "What is a triangle?": "A triangle is a shape with three sides.",
    "How many sides does a square have?": "A square has four sides.",
}
