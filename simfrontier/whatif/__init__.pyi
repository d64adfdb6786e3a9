from .whatifs import Answers as Answers, WhatIfs as WhatIfs
