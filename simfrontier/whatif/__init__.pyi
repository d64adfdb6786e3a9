from .answers import Answers as Answers
from .numbers import TABLES as TABLES
from .whatifs import WhatIfs as WhatIfs
