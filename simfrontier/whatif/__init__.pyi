from .answers import Answers as Answers
from .whatifs import WhatIfs as WhatIfs
