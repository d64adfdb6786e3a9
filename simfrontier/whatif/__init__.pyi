from .answers import LARGEST_ERROR as LARGEST_ERROR, MEAN_ERROR as MEAN_ERROR, Answers as Answers
from .numbers import TABLES as TABLES
from .whatifs import WhatIfs as WhatIfs
